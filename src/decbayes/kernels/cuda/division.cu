// Counts divided among slots on a GPU; ../groups.py does the same on the processor. SLOTS is defined when this is compiled.

#include "sums.cuh"

#define PER_LANE ((SLOTS + LANES - 1) / LANES)
#define TINY 1e-300

// Of each count n / sum_k shares_k profiles_k; what slots receive of the row; and how well they explain it. A block per row.
extern "C" __global__ void divide_rows(
    const int* starts, const int* stops, const int* indices, const double* data, const double* shares,
    const double* profiles, double* scales, double* received, double* likelihoods
) {
    __shared__ double share[SLOTS];
    DYNAMIC_SHARED(double, partial);
    int64 own = (int64)blockIdx.x * SLOTS;
    int first = starts[blockIdx.x], last = stops[blockIdx.x];
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    for (int k = threadIdx.x; k < SLOTS; k += blockDim.x) share[k] = shares[own + k];
    __syncthreads();
    double likelihood = 0;
    for (int e = first + threadIdx.x; e < last; e += blockDim.x) {
        const double* profile = profiles + (int64)indices[e] * SLOTS;
        double norm = TINY;
        for (int k = 0; k < SLOTS; ++k) norm += share[k] * profile[k];
        scales[e] = data[e] / norm;
        likelihood += data[e] * log(norm);
    }
    likelihood = sum_of_block(likelihood);
    if (threadIdx.x == 0) likelihoods[blockIdx.x] = likelihood;
    double sums[PER_LANE] = {0};
    for (int e = first + warp; e < last; e += warps) {
        const double* profile = profiles + (int64)indices[e] * SLOTS;
#pragma unroll
        for (int r = 0; r < PER_LANE; ++r)
            if (lane + LANES * r < SLOTS) sums[r] += profile[lane + LANES * r] * scales[e];
    }
#pragma unroll
    for (int r = 0; r < PER_LANE; ++r)
        if (lane + LANES * r < SLOTS) partial[warp * SLOTS + lane + LANES * r] = sums[r];
    __syncthreads();
    for (int k = threadIdx.x; k < SLOTS; k += blockDim.x) {
        double sum = 0;
        for (int w = 0; w < warps; ++w) sum += partial[w * SLOTS + k];
        received[own + k] = share[k] * sum;
    }
}

// What slots receive of each column, whose counts are at `entries`, from ends[column] on: a warp per column.
extern "C" __global__ void divide_columns(
    const int* ends, const int* entries, const int* rows, int width, const double* shares, const double* profiles,
    const double* scales, double* total
) {
    int column = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    if (column >= width) return;
    double sums[PER_LANE] = {0};
    for (int i = ends[column]; i < ends[column + 1]; ++i) {
        const double* share = shares + (int64)rows[i] * SLOTS;
        double scale = scales[entries[i]];
#pragma unroll
        for (int r = 0; r < PER_LANE; ++r)
            if (lane + LANES * r < SLOTS) sums[r] += share[lane + LANES * r] * scale;
    }
#pragma unroll
    for (int r = 0; r < PER_LANE; ++r) {
        int k = lane + LANES * r;
        if (k < SLOTS) total[(int64)column * SLOTS + k] = sums[r] * profiles[(int64)column * SLOTS + k];
    }
}

// Values divided by the sum of their row (axis 1) or of their column; others where that is zero. A thread per value.
extern "C" __global__ void normalise(
    const double* values, const double* sums, const double* others, int axis, int64 count, double* made
) {
    int64 place = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= count) return;
    double sum = sums[axis ? place / SLOTS : place % SLOTS];
    made[place] = sum > 0 ? values[place] / sum : others[place];
}

// As far again as from `before` to `reached`, nearly, on a logarithmic scale. A thread per value.
extern "C" __global__ void lead_on(
    const double* reached, const double* before, double least, int64 count, double* made
) {
    int64 place = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= count) return;
    double ratio = fmax(reached[place], least) / fmax(before[place], least);
    made[place] = fmax(reached[place] * ratio / sqrt(sqrt(sqrt(ratio))), least);
}
