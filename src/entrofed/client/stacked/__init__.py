"""Local training of several clients as one stacked computation: parameters ``[clients, ...]``, one step for all.

The plain loop, :mod:`entrofed.client.train`, says what training is; a stack draws the same batches from the same
streams and takes the same steps, and so has the same results but for rounding. It pays where a step of one client is so
short that to call it takes longer than to compute it.
"""
