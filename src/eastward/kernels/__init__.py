"""The loss at the price of cross-entropy: fused forward and backward passes for CPU and GPU."""
