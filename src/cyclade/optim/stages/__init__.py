"""Cutting a model into stages that can be replayed.

``cut`` turns any ``nn.Module`` into a ``Chain``. A stage is one use of a layer's parameters and
the parameterless operations that follow it. Running a stage turns an env (the values later
stages need) into the next one, so that an env cached before stage i lets stages i, i+1, ... be
replayed with other parameter tensors, and nothing before i is computed again:

>>> import torch
>>> from cyclade.optim.stages import Inputs, Replay, cut
>>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
>>> chain = cut(model)
>>> [(stage.name, stage.params) for stage in chain.stages]
[('0', ('0.weight', '0.bias')), ('2', ('2.weight', '2.bias'))]
>>> x = torch.ones(5, 3)
>>> replay = Replay()
>>> with torch.no_grad():
...     env = replay.run(0, chain.start(Inputs((x,))), {})
>>> weight = model[2].weight.detach().requires_grad_()
>>> out = chain.output(replay.run(1, env, {"2.weight": weight}))
>>> torch.equal(out, model(x))
True
>>> torch.autograd.grad(out.sum(), weight)[0].shape
torch.Size([2, 4])
"""

from cyclade.optim.stages.chain import Chain, CutWarning, Replay
from cyclade.optim.stages.cutting import cut
from cyclade.optim.stages.inputs import Inputs
from cyclade.optim.stages.stage import Env, Stage

__all__ = ["Chain", "CutWarning", "Env", "Inputs", "Replay", "Stage", "cut"]
