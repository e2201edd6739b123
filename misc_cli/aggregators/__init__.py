"""From a label matrix to posteriors: one file per method, a folder where a method needs several."""
