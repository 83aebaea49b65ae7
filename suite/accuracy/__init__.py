"""Compiled against eager: does an arm compute what the baseline computes?"""
