// What several files of kernels share: sums over the threads of a warp and of a block, and y log y.

#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif
#define LANES 32
#define MOST_WARPS 32
#define EVERY_LANE 0xffffffffu
#define HUGE_NUMBER 1e308

typedef long long int64;

template <typename Real>
__device__ __forceinline__ Real sum_of_lanes(Real value) {
    for (int step = LANES / 2; step; step /= 2) value += __shfl_xor_sync(EVERY_LANE, value, step);
    return value;
}

// The sum over all threads of a block, in every thread.
template <typename Real>
__device__ __forceinline__ Real sum_of_block(Real value) {
    __shared__ Real partial[MOST_WARPS];
    value = sum_of_lanes(value);
    __syncthreads();
    if (threadIdx.x % LANES == 0) partial[threadIdx.x / LANES] = value;
    __syncthreads();
    value = 0;
    for (int warp = 0; warp < blockDim.x / LANES; ++warp) value += partial[warp];
    return value;
}

// A value and where it is; of equal ones the first counts as the larger.
struct Best {
    double value;
    int place;
};

__device__ __forceinline__ Best larger(Best one, Best other) {
    return other.value > one.value || (other.value == one.value && other.place < one.place) ? other : one;
}

__device__ __forceinline__ Best largest_of_lanes(Best own) {
    for (int step = LANES / 2; step; step /= 2) {
        Best other = {__shfl_xor_sync(EVERY_LANE, own.value, step), __shfl_xor_sync(EVERY_LANE, own.place, step)};
        own = larger(own, other);
    }
    return own;
}

// y log y, and a penalty below zero, as in ../groups.py.
__device__ __forceinline__ double g(double y) {
    double z = y > 1e-300 ? y : 1e-300;
    return z * log(z) + (y < 0 ? 1e4 * y : 0.0);
}
