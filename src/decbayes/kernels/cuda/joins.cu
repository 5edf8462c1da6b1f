// Trees of groups of counts on a GPU, several at once; ../../merging/joins.py does the same.
//
// Group p of a tree is row ends[tree] + p of `counts`; `losses` has a matrix of `most` by `most` for each tree, infinite
// where there is nothing to join.

#include "sums.cuh"

// What two groups lose by being one: all threads of a block together.
__device__ double loss_of(const double* one, const double* other, double total, double other_total, int width) {
    double loss = 0;
    for (int column = threadIdx.x; column < width; column += blockDim.x) {
        double a = one[column], b = other[column];
        if (a != 0 && b != 0) loss += g(a) + g(b) - g(a + b);
    }
    return sum_of_block(loss) + g(total + other_total) - g(total) - g(other_total);
}

// Of all pairs: a block per pair.
extern "C" __global__ void compare_all(
    const int* ends, int most, int width, const double* counts, const double* totals, double* losses
) {
    int tree = blockIdx.x / (most * most), p = blockIdx.x / most % most, q = blockIdx.x % most;
    int first = ends[tree], size = ends[tree + 1] - first;
    if (p < q) return;
    double loss = HUGE_NUMBER;
    if (p < size && p != q) {
        int64 a = first + p, b = first + q;
        loss = loss_of(counts + a * width, counts + b * width, totals[a], totals[b], width);
    }
    if (threadIdx.x) return;
    double* own = losses + (int64)tree * most * most;
    own[p * most + q] = own[q * most + p] = loss;
}

// The group with which one group loses least, and minus that loss: all lanes of a warp together. One group is left out.
__device__ Best nearest_of(const double* losses, int size, int left_out, int lane) {
    Best best = {-HUGE_NUMBER, size};
    for (int q = lane; q < size; q += LANES)
        if (q != left_out) best = larger(best, {-losses[q], q});
    return largest_of_lanes(best);
}

// Join the two groups of each tree that lose least, until `fewest` are left: a block per tree. `nearest` and `gains`
// have, for each group, the one with which it loses least, and minus that loss.
extern "C" __global__ void join_nearest(
    const int* ends, int most, int fewest, int width, int step, double* counts, double* totals, double* losses, int* joined,
    int* nearest, double* gains
) {
    __shared__ Best bests[MOST_WARPS];
    int first = ends[blockIdx.x], size = ends[blockIdx.x + 1] - first, lane = threadIdx.x % LANES;
    int warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    int* pair = joined + 2 * (step * gridDim.x + blockIdx.x);
    if (threadIdx.x == 0) pair[0] = pair[1] = -1;
    if (step >= size - fewest) return;
    double* own = losses + (int64)blockIdx.x * most * most;
    // Of the group made last, all losses are new; the others know theirs from `compare_joined`.
    int last = step ? pair[-2 * (int)gridDim.x] : 0, count = step ? 1 : size;
    for (int p = last + warp; p < last + count; p += warps) {
        Best best = nearest_of(own + p * most, size, p, lane);
        if (lane == 0) nearest[first + p] = best.place, gains[first + p] = best.value;
    }
    __syncthreads();
    Best best = {-HUGE_NUMBER, most * most};
    for (int p = threadIdx.x; p < size; p += blockDim.x) best = larger(best, {gains[first + p], p * most + nearest[first + p]});
    best = largest_of_lanes(best);
    if (lane == 0) bests[warp] = best;
    __syncthreads();
    for (int w = 0; w < warps; ++w) best = larger(best, bests[w]);
    int kept = best.place / most, absorbed = best.place % most;  // the first of the two places of a pair: kept < absorbed
    double *to = counts + (int64)(first + kept) * width, *from = counts + (int64)(first + absorbed) * width;
    for (int column = threadIdx.x; column < width; column += blockDim.x) to[column] += from[column];
    for (int other = threadIdx.x; other < size; other += blockDim.x)
        own[absorbed * most + other] = own[other * most + absorbed] = HUGE_NUMBER;
    if (threadIdx.x) return;
    totals[first + kept] += totals[first + absorbed];
    totals[first + absorbed] = -1;
    gains[first + absorbed] = -HUGE_NUMBER;
    pair[0] = kept, pair[1] = absorbed;
}

// What the groups just made lose with each of the others: a block per group.
extern "C" __global__ void compare_joined(
    const int* ends, int most, int width, int step, int trees, const double* counts, const double* totals,
    const int* joined, double* losses, int* nearest, double* gains
) {
    int tree = blockIdx.x / most, other = blockIdx.x % most, first = ends[tree], size = ends[tree + 1] - first;
    int kept = joined[2 * (step * trees + tree)], absorbed = joined[2 * (step * trees + tree) + 1];
    if (kept < 0 || other >= size || other == kept || totals[first + other] < 0) return;
    int64 a = first + kept, b = first + other;
    double loss = loss_of(counts + a * width, counts + b * width, totals[a], totals[b], width);
    double* own = losses + (int64)tree * most * most;
    if (threadIdx.x == 0) own[kept * most + other] = own[other * most + kept] = loss;
    if (threadIdx.x >= LANES) return;
    // The first lane reads for all: it is also the one that writes.
    Best best = {gains[b], __shfl_sync(EVERY_LANE, nearest[b], 0)};
    if (best.place == kept || best.place == absorbed) best = nearest_of(own + other * most, size, kept, threadIdx.x);
    best = larger(best, {-loss, kept});
    if (threadIdx.x == 0) nearest[b] = best.place, gains[b] = best.value;
}

// What slots lose by being one: a block per pair.
extern "C" __global__ void compare_slots(int slots, int width, const double* counts, const double* totals, double* losses) {
    int64 p = blockIdx.x / slots, q = blockIdx.x % slots;
    if (p <= q) return;
    double loss = loss_of(counts + p * width, counts + q * width, totals[p], totals[q], width);
    if (threadIdx.x == 0) losses[p * slots + q] = losses[q * slots + p] = loss;
}
