"""Fast forward and backward passes of the loss, for CPU and GPU."""
