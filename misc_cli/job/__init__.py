"""A request carried out: inputs read, questions fitted, outputs judged and published."""
