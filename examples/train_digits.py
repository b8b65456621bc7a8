"""Train a classifier of handwritten digits on as many GPUs as the scheduler grants.

On a cluster with a scheduler (`raysched start`):

    ray job submit --working-dir . -- python examples/train_digits.py

The training function is `raysched.demo.digits.train`. It is ordinary PyTorch but for four calls:
`raysched.prepare` places the model, `raysched.epochs` walks the epochs and carries the training
over to other workers between two of them, `raysched.batches` deals out the samples, and
`raysched.report` says how it went.
"""

import argparse

import raysched
from raysched.demo.digits import load_digits, train


def main() -> None:
    arguments = parse_arguments()
    trainer = raysched.TorchTrainer(
        train,
        train_loop_config={"data": load_digits()},
        epochs=arguments.epochs,
        workers=(arguments.min_workers, arguments.max_workers),
        batch_size=arguments.batch_size,  # of all workers together, however many there are
        gpus_per_worker=arguments.gpus_per_worker,
        name=arguments.name,
    )
    metrics = trainer.fit().metrics or {}  # waits for its turn; is resized, preempted, resumed
    print(f"test accuracy {metrics['accuracy']:.3f} after {arguments.epochs} epochs")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a classifier of handwritten digits.")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--min-workers", type=int, default=1)
    parser.add_argument("--max-workers", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--gpus-per-worker", type=int, default=1)
    parser.add_argument("--name", default="digits")
    return parser.parse_args()


if __name__ == "__main__":
    main()
