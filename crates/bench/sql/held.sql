SELECT coalesce((SELECT sum(cardinality(ids)) FROM consign.lease), 0)::bigint AS leased,
       coalesce((SELECT sum(cardinality(ids)) FROM consign.ready), 0)::bigint AS ready
