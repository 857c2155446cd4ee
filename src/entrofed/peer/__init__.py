"""Peers for real: one process for each organization, with its own data, and nobody in the middle.

A peer trains, keeps what it sends (:mod:`~entrofed.peer.outbox`), and asks its neighbours for theirs
(:mod:`~entrofed.peer.exchange`) over gRPC with mutual TLS; it admits and pools what it gets with the functions that
simulated peers use (:mod:`~entrofed.peer.round`). Nothing is pushed: a peer only ever gets answers to what it asked.
"""
