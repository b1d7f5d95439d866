"""What every room stands on and knows nothing of softmax: arguments, files, text, the machine."""
