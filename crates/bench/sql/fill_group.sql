SELECT consign.enqueue_many('ordered', array_fill('1'::jsonb, ARRAY[$1]), p_groups => array_fill('one'::text, ARRAY[$1]))
