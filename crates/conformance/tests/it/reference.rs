//! The reference store obeys every rule.

use consign_conformance::ReferenceFactory;

consign_conformance::suite!(ReferenceFactory::default());
