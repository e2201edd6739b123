"""What the methods with one confusion matrix per worker share."""
