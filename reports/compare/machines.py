"""Which bundles are of the same machine model, and how many machines (units) of it they come from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from reports.compare.load import Member
from reports.compare.units import fact, named, units
from reports.plain import one_line

UNITS_OF_A_PRODUCT = 3
"""Below three units a sentence speaks of this unit, not of the model: two cannot show how far units of one model scatter."""

UNKNOWN = "a machine that does not say what it is"


@dataclass(frozen=True)
class Model:
    """What makes two machines the same product. None where the machine does not show it."""

    cpu: str | None
    sockets: str | None
    cores: str | None
    gpus: tuple[str, ...]
    device: str = ""
    product: str | None = None

    @property
    def name(self) -> str:
        """The model in words: the device that did the work first, else the GPUs that are there."""
        cores = f", {self.cores} cores" if self.cores else ""
        gpus = [f"{n} x {gpu}" if (n := self.gpus.count(gpu)) > 1 else gpu for gpu in dict.fromkeys(self.gpus)]
        parts = [self.device or " and ".join(gpus), f"{self.cpu}{cores}" if self.cpu else ""]
        return " on ".join(part for part in parts if part) or UNKNOWN

    @property
    def without_product(self) -> tuple[object, ...]:
        """What is left where the product's name is hidden."""
        return self.cpu, self.sockets, self.cores, self.gpus, self.device


@dataclass(frozen=True)
class Group:
    """The bundles of one machine model. `units` holds for each unit that can be told apart its members."""

    model: Model
    members: tuple[Member, ...]
    units: tuple[tuple[Member, ...], ...]

    @property
    def is_product(self) -> bool:
        """Whether enough units were measured to speak of the model."""
        return len(self.units) >= UNITS_OF_A_PRODUCT

    @property
    def subject(self) -> str:
        """What a sentence about this group may call it."""
        return self.model.name if self.is_product else f"this unit of {self.model.name}"


def value_text(member: Member, subject: str, name: str) -> str | None:
    """A fact's value as one printable line; None when there is none."""
    found = fact(member, subject, name)
    return None if found is None or found.value is None or found.value == "" else one_line(found.value, 120)


def gpu_names(member: Member) -> tuple[str, ...]:
    """Names of the GPUs that the fingerprint lists ("gpu 0 name"), in their order."""
    facts = member.bundle.fingerprint.facts.get("gpu", {}) if member.bundle.fingerprint else {}
    numbers = sorted(int(match[1]) for name in facts if (match := re.fullmatch(r"gpu (\d{1,6}) name", name)))
    return tuple(text for number in numbers if (text := value_text(member, "gpu", f"gpu {number} name")))


def device(member: Member) -> str:
    """The device that a run measured on, beside the processor: its name and, of a part of a GPU, the part. Empty on a processor."""
    found = member.bundle.run.device
    if found.kind == "cpu":
        return ""
    return one_line(" ".join(part for part in (found.name or found.kind, found.partition) if part), 120)


def model(member: Member) -> Model:
    """The machine model that a bundle's fingerprint describes."""
    maker, product = (value_text(member, "system", name) for name in ("sys_vendor", "product_name"))
    return Model(
        cpu=value_text(member, "cpu", "model"),
        sockets=value_text(member, "cpu", "sockets"),
        cores=value_text(member, "cpu", "physical_cores"),
        gpus=gpu_names(member),
        device=device(member),
        product=" ".join(part for part in (maker, product) if part) or None,
    )


def groups(members: Sequence[Member]) -> tuple[Group, ...]:
    """Members by machine model, in the order in which the models come first.

    A container hides the product's name: its bundle joins the group of the only product that it can be of. A machine that does not
    name its processor is like no other, unless its identity says that it is the same.
    """
    models = {one.letter: model(one) for one in members}
    found: dict[object, list[Member]] = {}
    for one in members:
        found.setdefault(_key(one, models), []).append(one)
    return tuple(
        Group(max((models[one.letter] for one in group), key=_known), tuple(group), units(group))
        for group in found.values()
    )


def _key(member: Member, models: dict[str, Model]) -> object:
    own = models[member.letter]
    if own.cpu is None and not own.gpus:
        return named(member) or member.letter
    products = {m.product for m in models.values() if m.without_product == own.without_product and m.product}
    product = own.product or (next(iter(products)) if len(products) == 1 else None)
    return (*own.without_product, product)


def _known(found: Model) -> int:
    return sum(value is not None for value in (found.cpu, found.sockets, found.cores, found.product))
