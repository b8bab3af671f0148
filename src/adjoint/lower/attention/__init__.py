"""Fused attention and its gradients, with an online softmax as in FlashAttention.

`plan` finds what the attention operators of one kernel share and lays out a thread's memory; `online_softmax` builds
the loops.
"""
