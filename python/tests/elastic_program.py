"""An elastic program for tests: python elastic_program.py FOLDER EPOCHS [WORKER:EPOCH:BATCH:kill|term|throw]..."""

import os
import signal
import sys

import torch

import sullae.torch as hvd

SAMPLES, BATCH = 48, 12


def main():
    folder, epochs, deeds = sys.argv[1], int(sys.argv[2]), [deed.split(":") for deed in sys.argv[3:]]
    worker = os.environ.get("SULLAE_ELASTIC_WORKER", "0")
    torch.manual_seed(int(worker))
    hvd.init()
    if any((who, epoch) == (worker, "-1") for who, epoch, _, _ in deeds):
        os.kill(os.getpid(), signal.SIGKILL)
    data = torch.linspace(-1, 1, SAMPLES, dtype=torch.float64)[:, None].expand(SAMPLES, 4).clone() * torch.arange(1.0, 5)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8, affine=False), torch.nn.Linear(8, 1)).double()
    model[1].eval()
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.01), model.named_parameters(), op=hvd.Sum)
    sampler = hvd.elastic.ElasticSampler(range(SAMPLES))

    @hvd.elastic.run
    def train(state):
        while state.epoch < epochs:
            sampler.set_epoch(state.epoch)
            # A batch over all ranks, whatever their number: rank r has its part of each.
            while state.batch < SAMPLES // BATCH:
                for who, epoch, batch, what in deeds:
                    if (who, int(epoch), int(batch)) == (worker, state.epoch, state.batch):
                        if what == "throw":
                            raise RuntimeError("as it was told to")
                        os.kill(os.getpid(), signal.SIGKILL if what == "kill" else signal.SIGTERM)
                rows = BATCH // hvd.size()
                own = torch.tensor(sampler.indices[:rows])
                optimizer.zero_grad()
                x = data[own]
                ((model[2](torch.tanh(model[0](x))) - x.sin().sum(1, keepdim=True)).pow(2).sum() / BATCH).backward()
                optimizer.step()
                with open(f"{folder}/samples-{worker}", "a") as file:
                    file.writelines(f"{state.epoch} {sample}\n" for sample in own.tolist())
                state.batch += 1
                sampler.record_batch(state.batch, rows)
                sampler.reset()
                state.commit()
            state.epoch, state.batch = state.epoch + 1, 0
        if hvd.rank() == 0:
            torch.save([p.detach() for p in model.parameters()], f"{folder}/weights")
            with open(f"{folder}/changes", "w") as file:
                file.write(f"{resets}")

    resets = []
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, batch=0)
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])
    train(state)


if __name__ == "__main__":
    main()
