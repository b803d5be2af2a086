"""Statistics of repeated measurements: medians, quartiles, and whether two sets of repetitions differ."""

import math


def quantile(values, share):
    """The value below which `share` of the values lie, interpolated between neighbours."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def median(values):
    return quantile(values, 0.5)


def quartiles(values):
    return quantile(values, 0.25), quantile(values, 0.75)


def doubled_ranks(values):
    """Twice the rank of each value; equal values share the mean of their ranks, so doubling keeps ranks whole."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for i in order[begin:end]:
            ranks[i] = begin + 1 + end  # twice the mean of begin + 1 .. end
        begin = end
    return ranks


def exact_tail(ranks, count, distance):
    """The share of subsets of `count` ranks whose sum is at least `distance` away from the mean of such sums."""
    ways = [{0: 1}] + [{} for _ in range(count)]
    for rank in ranks:
        for size in range(count, 0, -1):
            for total, number in ways[size - 1].items():
                ways[size][total + rank] = ways[size].get(total + rank, 0) + number
    total_ways = sum(ways[count].values())
    mean = sum(ranks) * count / len(ranks)
    far = sum(number for total, number in ways[count].items() if abs(total - mean) >= distance - 1e-9)
    return far / total_ways


def normal_tail(z):
    return math.erfc(abs(z) / math.sqrt(2))


def rank_test(a, b):
    """The probability of a difference in ranks at least this large if `a` and `b` came from one distribution: the
    two-sided test of Mann and Whitney, exact up to 40 values, which makes no assumption about the noise."""
    if not a or not b:
        return 1.0
    ranks = doubled_ranks(list(a) + list(b))
    n, m = len(a), len(b)
    mean = sum(ranks) * n / (n + m)
    distance = abs(sum(ranks[:n]) - mean)
    if n + m <= 40:
        return exact_tail(tuple(ranks), n, distance)
    centre = sum(ranks) / (n + m)
    spread = sum((r - centre) ** 2 for r in ranks) / (n + m - 1)
    deviation = math.sqrt(spread * n * m / (n + m))
    return 1.0 if deviation == 0 else normal_tail(distance / deviation)


def smallest_p(n, m):
    """The smallest probability that rank_test can give for n and m repetitions: what they can show at all."""
    return 2 / math.comb(n + m, n)
