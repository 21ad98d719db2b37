"""Which way a net's gradients are computed: by stages, by the whole model, and why."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from torch import nn

from cyclade.optim._warn import warn_user
from cyclade.optim.batches import first_samples
from cyclade.optim.blocks.partitioning import Partitioning, placed
from cyclade.optim.net import Batch, Net
from cyclade.optim.proof.gradients import Proof, UnprovedError, elsewhere, proving
from cyclade.optim.stages import Chain, CutWarning, Inputs
from cyclade.optim.stages.cutting import cut, whole
from cyclade.optim.stages.preserve import in_turn
from cyclade.optim.stages.structure import Structure
from cyclade.optim.stages.verifying import verify

_FEW = 8  # samples of a batch on which a proof is made
_AGAIN = (20, 200, 2000)  # before these steps, and each 2000 more, a route is looked at again


def in_words(route: str) -> str:
    """How a model is run."""
    return "not cut" if route in ("whole", "model") else f"cut by {route}"


@dataclass(frozen=True)
class ProofReport:
    """What `prove` found: the route, the blocks, and parameters whose gradient was zero."""

    route: str
    blocks: int
    unseen: tuple[str, ...]

    def __str__(self) -> str:
        how = in_words(self.route)
        text = f"the gradients of {self.blocks} blocks ({how}) are the model's own"
        return text + (f"; nothing is known of {', '.join(self.unseen)}" if self.unseen else "")


class Routes:
    """The chain of stages in use, and the proof that it is the model.

    The routes, from the cheapest: the stages that the model was cut into; the whole model as one
    stage; the model itself, differentiated in its own parameters. What cannot be proved on a batch
    falls to the next route with a warning, and from the last one it is refused. The proof is made
    on the first batch and again when the structure, the hooks, the training flags or plain
    attributes of the model have changed, or a new kind of call needs a new cut.
    """

    def __init__(
        self,
        model: nn.Module,
        example: Inputs | None,
        stages: Sequence[nn.Module] | None,
        *,
        compile: bool,
        recursive: bool,
        again: bool,
    ) -> None:
        self._model, self._stages, self._compile = model, stages, compile
        self._recursive = recursive
        # Whether to look at a route now and then. CUDA graphs stay as they are, and visits to one
        # block at a time have no memory for the gradients of all.
        self._again = again
        first = cut(model, example=example, stages=stages, warn=False)
        # Without an example torch.export could not try: it will, on the first batch.
        self.settled = example is not None or not first.needs_example
        if self.settled:
            first.warn()
        self.net: Net  # it and the partitioning are given once they are made
        self.partitioning: Partitioning
        self.chosen = False  # whether the blocks are, which then stay what they are
        self.chain = self._ready(first)
        self._recut = False  # whether the stages are others than when they were last counted
        self.unseen: list[str] = []  # parameters whose gradient was zero in the last proof
        self._structure = Structure(model)

    @property
    def how(self) -> str:
        """How the model was cut, in a word."""
        return "model" if self.net.whole_model else self.chain.how

    def _ready(self, chain: Chain) -> Chain:
        if self._compile:
            chain.compile()
        return chain

    def _use(self, chain: Chain) -> None:
        self.chain = self.net.chain = self._ready(chain)
        self._recut = True

    def ready(self, batches: Sequence[Batch], step: int) -> bool:
        """Whether nothing has to be proved before these batches are used in this step."""
        return not self._due(step) and self._proved(batches)

    def _proved(self, batches: Sequence[Batch]) -> bool:
        """Whether the route is proved for such batches, and the model still what it was then."""
        self.net.check_unchanged()
        if not self.chosen or self._structure.changed():
            return False
        many = len(batches) > 1
        return all(self.chain.is_proved(batch.inputs, many=many) for batch in batches)

    def _due(self, step: int) -> bool:
        """Whether it is time for another look at what was proved."""
        return self._again and step > 0 and (step in _AGAIN or step % _AGAIN[-1] == 0)

    def prove(
        self, batches: Sequence[Batch], step: int, every: bool = False, *, thorough: bool = False
    ) -> bool:
        """Prove what is not proved yet (or `every` batch); whether there was anything.

        On the first batch this also chooses the blocks. A `thorough` proof takes all samples, and a
        point beside the present one.
        """
        if not batches:
            self.net.check_unchanged()
            if not self.chosen:
                raise ValueError("the first batch must have samples on every rank")
            return False
        if not every and self.ready(batches, step):
            return False
        with in_turn(alone=True):
            if not every and self._proved(batches):
                if self._still_proved(batches[0]):
                    return False
                every = thorough = True
            self.net.check_unchanged()
            self._find_route(batches, every, thorough)
        return True

    def _place_blocks(self, inputs: Inputs) -> None:
        """Choose the blocks for the route to be proved."""
        net, parts = self.net, self.partitioning
        if net.whole_model:
            parts.costs = [1.0]  # one pass a block
        elif parts.costs is None or self._recut:
            parts.count(net.chain, inputs)
        if self.chosen:
            net.arrange(placed(net.blocks, net.model, net.chain))
        else:
            net.arrange(parts.choose(net.chain))

    def _find_route(self, batches: Sequence[Batch], every: bool, thorough: bool) -> None:
        """Find a route that is proved on these batches."""
        inputs = batches[0].inputs
        self._follow_changes(inputs)
        many, reason, written = len(batches) > 1, None, set[str]()
        while True:
            try:
                if self._recursive or many:
                    self._keep_hooks_whole()
                for batch in batches:
                    known = self.chain.is_proved(batch.inputs, many=many)
                    if every or batch is batches[0] or not known:
                        written |= self._prove_one(batch, inputs, many, thorough)
                break
            except UnprovedError as error:
                reason = reason or (_REPLACED if "forward" in vars(self._model) else str(error))
                self._fall(reason)
        self._recut = False
        self._structure = Structure(self._model, written)
        if reason is not None:
            warn_user(
                CutWarning(
                    f"{type(self._model).__name__} runs as a whole, so every block pays for a full "
                    f"pass: {reason}"
                )
            )

    def _prove_one(self, batch: Batch, first: Inputs, many: bool, thorough: bool) -> set[str]:
        """Prove the present route on a batch; the attributes that forward itself writes."""
        few, proof = None if thorough else self._few(batch), None
        if few is not None:
            with suppress(Exception):  # all samples will say what is wrong, or that nothing is
                found = self._proved_on(few, first)
                if self.chain.how == "export":  # what it baked in for these sizes shows in outputs
                    verify(self.chain, batch.inputs, briefly=True)
                proof = found if found.finite and not self.unseen else None
        if proof is None:
            # Ranks that meet in a normalisation must make as many passes as each other.
            beside = thorough or self.net.weigh_losses
            proof = self._proved_on(batch, first, all_samples=True, beside=beside)
        if proof.finite:
            self.chain.mark_proved(batch.inputs, many=many)
        return set(proof.written)

    def _proved_on(
        self, batch: Batch, first: Inputs, all_samples: bool = False, beside: bool = False
    ) -> Proof:
        """The proof on these samples (all may be cut for their own sizes), or `beside` as well."""
        proof = Proof(self.net, batch)
        try:
            proof.check_stages()
        except UnprovedError:
            if not all_samples or not self.chain.cut_alone(batch.inputs):
                raise
            proof.check_stages()
        with proving():
            self._place_blocks(first)
        proof.check_gradients()
        self.unseen = proof.unseen
        if proof.finite and (beside or self.unseen):
            self._prove_elsewhere(batch)
        return proof

    def _few(self, batch: Batch) -> Batch | None:
        """A few samples, which are enough for a proof where no size is baked in; else None."""
        if batch.size < 2 * _FEW or self.net.weigh_losses:
            return None
        few = first_samples(batch, _FEW)
        if few is None or (self.chain.how == "export" and not self.chain.serves(few.inputs)):
            return None
        return few

    def _prove_elsewhere(self, batch: Batch) -> None:
        """The same at a point where no parameter is zero, which hides what lies before it."""
        if self.net.whole_model:
            return
        with elsewhere(self.net):
            try:
                proof = Proof(self.net, batch)
            except Exception:  # a logarithm, a Cholesky factor: this point says nothing
                return
            if proof.finite:
                proof.check_gradients()
                self.unseen = [name for name in self.unseen if name in proof.unseen]

    def _still_proved(self, batch: Batch) -> bool:
        """A cheap look, now and then, at a route that was proved on earlier batches."""
        try:
            self._prove_elsewhere(self._few(batch) or batch)
        except UnprovedError:
            return False
        return True

    def check_parameters(self) -> None:
        """Refuse to go on when the model has other parameters than it had, or changed ones."""
        self.net.check_unchanged()
        if self._structure.changed():
            self.net.check_registry()

    def _follow_changes(self, inputs: Inputs) -> None:
        """Cut again where the model has changed, or could not be cut without a batch."""
        changed = self._structure.changed()
        if changed:
            self.net.check_registry()
            self.net.whole_model = False
        if changed or not self.settled:
            self.settled = True
            self._use(cut(self._model, example=inputs, stages=self._stages))

    def _keep_hooks_whole(self) -> None:
        """Hooks may hand values to the loss, which must then come from the same pass."""
        if self.chain.how == "whole" or self.net.whole_model:
            return
        for path, module in self._model.named_modules():
            if module._forward_hooks or module._forward_pre_hooks:
                raise UnprovedError(
                    f"{path or 'the model'} has forward hooks, whose values would come from "
                    "another pass (of the lagged point, or of another micro-batch)"
                )

    def _fall(self, reason: str) -> None:
        """Take the next route, or refuse."""
        if self._stages is not None:
            raise ValueError(f"stages= are not the model: {reason}")
        if self.chain.how != "whole":
            self._use(whole(self._model))
        elif not self.net.whole_model:
            self.net.whole_model = True
        else:
            raise ValueError(
                f"no way of running {type(self._model).__name__} block by block gives its own "
                f"gradients: {reason}"
            )


_REPLACED = (
    "its forward was replaced (by mixed_precision= of Accelerate or bf16=True of transformers, "
    "perhaps: leave these off, and run opt.step under torch.autocast)"
)
