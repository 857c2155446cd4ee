"""A weigher of one's own, compared with FedAvg on the same clients and seeds.

    python examples/own_method.py

A client counts by the number of classes it holds. What a client must tell for that (its label counts) is declared, so
that traffic, privacy and the report know of it.
"""

import numpy as np
from sklearn.datasets import load_digits

import entrofed as ef
from entrofed.facts.label_counts import LabelCounts


class ByClasses(ef.Weigher):
    """In proportion to the number of classes that a client holds."""

    name = "by_classes"
    facts = (LabelCounts(),)

    def weigh(self, updates, context):
        counts = context.clients.told("label_counts", self.name)
        classes = np.array([(counts[update.client] > 0).sum() for update in updates], float)
        return ef.Weighing(classes / classes.sum(), [{"classes": int(n)} for n in classes])


def main(rounds: int = 20, seeds: int = 3) -> ef.Comparison:
    """Both methods on clients that are dealt out anew for each seed."""
    x, y = load_digits(return_X_y=True)
    images = x.reshape(-1, 8, 8).astype("float32") / 16

    def federation(seed: int) -> ef.Federation:
        return ef.Federation.partition(images, y, "dirichlet_balanced", clients=20, alpha=0.1, test=0.2, seed=seed)

    setting = {"model": "mlp", "rounds": rounds, "seeds": seeds, "cohort": 5, "epochs": 2, "lr": 0.05, "momentum": 0.9}
    fedavg = ef.run(federation, method="fedavg", **setting)
    ours = ef.run(federation, method=ef.methods.fedavg(weigher=ByClasses()), **setting)
    return ef.compare(fedavg, ours, against="fedavg")


if __name__ == "__main__":
    print(main())
