#!/usr/bin/env python3
"""What each kernel should reach on GPUs you do not have, on paper: its flops per byte against the peaks of the data sheets. Prints the
table of docs/tuning.md."""

# Peaks as the vendors state them: TFLOP/s of multiply-adds in f32 and f64, without matrix engines; GB/s of memory.
# MI250X: one of its two dies, which is one SYCL device. RX 7900 XTX: with two instructions at once, which few kernels get.
DEVICES = {
    "Max 1550": {"f32": 52.4, "f64": 52.4, "memory": 3277},
    "A100 80 GB": {"f32": 19.5, "f64": 9.7, "memory": 2039},
    "H100 SXM": {"f32": 66.9, "f64": 33.5, "memory": 3350},
    "MI250X": {"f32": 23.9, "f64": 23.9, "memory": 1638},
    "Arc A770": {"f32": 19.7, "f64": None, "memory": 560},
    "RX 7900 XTX": {"f32": 61.4, "f64": 1.9, "memory": 960},
}

BYTES = {"f32": 4, "f64": 8}


def gemm_tiled(size):
    """A group makes 128 x 64 of c, in f64 64 x 64: per step of k it reads a column of a and a row of b."""
    rows_of_c = 128 if size == 4 else 64
    return 2 * rows_of_c * 64 / ((rows_of_c + 64) * size)


def attention(products, queries=32):
    """Per key a group of 32 queries reads two rows of 64 numbers, and makes so many products of 64 with every query."""
    return lambda size: products * 2 * 64 * queries / (2 * 64 * size)


def rows(flops, passes):
    """Flops per number that is read or written `passes` times."""
    return lambda size: flops / (passes * size)


def qr(size):
    """2048 x 64 with Q: 4 m n^2 flops, read and written once, the blocks in local memory."""
    return 4 * 64 / (2 * size)


# kernel: flops per byte for numbers of so many bytes; share of multiply-adds in the hottest loop, which is all that a kernel can
# reach if it issues one instruction per clock (Max 1550, by ./run machine-code).
KERNELS = {
    "gemm_tiled": (gemm_tiled, 0.52),
    "attention_forward": (attention(2), 0.17),
    "attention_backward": (attention(5), 0.09),
    "qr_chunks": (qr, 0.03),
    "row_softmax": (rows(5, 2), None),
    "row_layer_norm": (rows(8, 2), None),
    "map_one (gelu)": (rows(20, 2), None),
}


def expected(intensity, device, kind, products):
    """(bound, share of the peak)"""
    peak = DEVICES[device][kind]
    if peak is None:
        return None
    by_memory = DEVICES[device]["memory"] * intensity / (1000 * peak)
    by_instructions = products or 1
    return ("memory", by_memory) if by_memory < by_instructions else ("instructions", by_instructions)


def main():
    print("| kernel | type | flops per byte | " + " | ".join(DEVICES) + " |")
    print("| --- " * (3 + len(DEVICES)) + "|")
    for name, (intensity_of, products) in KERNELS.items():
        for kind, size in BYTES.items():
            cells = []
            for device in DEVICES:
                found = expected(intensity_of(size), device, kind, products)
                cells.append("no f64" if found is None else f"{found[0]} {found[1]:.2g}")
            print(f"| {name} | {kind} | {intensity_of(size):.3g} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
