"""Reads torch.profiler traces of any vendor and age, healthy or damaged, and computes what they tell."""
