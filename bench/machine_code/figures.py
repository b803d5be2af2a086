"""What a compiler says of a kernel, and what can be read from its machine code."""

import dataclasses
import re


@dataclasses.dataclass
class Figures:
    """None: not known."""
    registers: int | None = None
    spilled: int | None = None        # registers or bytes, as the compiler counts
    local_bytes: int | None = None    # static; what a launch asks for comes on top
    private_bytes: int | None = None  # arrays and spilled registers of a work-item that live in memory
    instructions: int | None = None
    lanes: int | None = None          # of a sub-group
    occupancy: float | None = None    # share of the most sub-groups that the registers leave room for
    loop_products: float | None = None  # share of multiply-adds among the instructions of the hottest loop
    product_cycles: float | None = None  # cycles of that loop for each of its multiply-adds, by a model of the processor
    error: str = ""

    @property
    def spills(self):
        return bool(self.spilled)


def hottest_range(instructions, labels, target_of, is_product):
    """(multiply-adds, begin, end) of the innermost loop that has most of them, or None without such a loop. `instructions`
    are texts, `labels` {name: place}, `target_of(text)` the label that an instruction jumps to, or None."""
    loops = []
    for place, text in enumerate(instructions):
        target = target_of(text)
        if target in labels and labels[target] <= place:
            loops.append((labels[target], place + 1))
    best = None
    for begin, end in loops:
        if any(begin <= b and e <= end and (b, e) != (begin, end) for b, e in loops):
            continue  # not innermost
        products = sum(is_product(text) for text in instructions[begin:end])
        if products and (best is None or products > best[0]):
            best = (products, begin, end)
    return best


def hottest_loop(instructions, labels, target_of, is_product):
    """The share of multiply-adds in that loop."""
    best = hottest_range(instructions, labels, target_of, is_product)
    return best[0] / (best[2] - best[1]) if best else None


def short_name(kernel):
    """nullscope::kernels::attention_forward<float, ...> -> attention_forward<float, ...>, with shapes in numbers."""
    name = kernel.replace("nullscope::kernels::", "").replace("nullscope::", "")
    return re.sub(r"\s+", " ", name)
