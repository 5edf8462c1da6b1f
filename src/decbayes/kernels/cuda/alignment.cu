// The alignment gain of Dirichlet rows on a GPU; ../gain.py and ../rows.py do the same on the processor.
//
// Slots are rows of (slots, width) matrices: alpha = start + added, and a table of lnGamma(alpha), zero where alpha is
// outside the domain. Sparse rows are given by where each starts and stops in `indices` and `data`.

#include "sums.cuh"

// added[slots[i]] += sign * row components[i]; a component below zero is none. A block per place.
extern "C" __global__ void add_rows(
    const int* slots, const int* components, const int* starts, const int* stops, const int* indices, const double* data,
    double sign, int width, double* added
) {
    int component = components[blockIdx.x];
    if (component < 0) return;
    double* row = added + (int64)slots[blockIdx.x] * width;
    for (int e = starts[component] + threadIdx.x; e < stops[component]; e += blockDim.x) row[indices[e]] += sign * data[e];
}

// alpha, its table, and how many columns are outside the domain. A block per slot.
extern "C" __global__ void tabulate(
    const int* slots, int width, const double* start, const double* added, double* alpha, double* table, int* outside
) {
    int64 first = (int64)slots[blockIdx.x] * width;
    int wrong = 0;
    for (int column = threadIdx.x; column < width; column += blockDim.x) {
        double value = start[first + column] + added[first + column];
        alpha[first + column] = value;
        table[first + column] = value > 0 ? lgamma(value) : 0.0;
        wrong += !(value > 0);
    }
    wrong = sum_of_block(wrong);
    if (threadIdx.x == 0) outside[slots[blockIdx.x]] = wrong;
}

// Take row held[i] out of slot slots[i] for a moment, keeping what was there. A block per place.
extern "C" __global__ void take_out(
    const int* slots, const int* held, const int* starts, const int* stops, const int* indices, const double* data,
    int width, int longest, const double* start, const double* added, const int* outside, double* alpha, double* table,
    double* kept, int* wrong
) {
    int slot = slots[blockIdx.x], row = held[blockIdx.x], left = 0;
    int64 first = (int64)slot * width;
    if (row >= 0) {
        double* own = kept + 2 * (int64)blockIdx.x * longest;
        for (int e = starts[row] + threadIdx.x; e < stops[row]; e += blockDim.x) {
            int64 place = first + indices[e];
            double before = alpha[place], rest = start[place] + (added[place] - data[e]);
            own[2 * (e - starts[row])] = before;
            own[2 * (e - starts[row]) + 1] = table[place];
            left += !(rest > 0) - !(before > 0);
            alpha[place] = rest;
            table[place] = rest > 0 ? lgamma(rest) : 0.0;
        }
    }
    left = sum_of_block(left);
    if (threadIdx.x == 0) wrong[blockIdx.x] = outside[slot] + left;
}

extern "C" __global__ void put_back(
    const int* slots, const int* held, const int* starts, const int* stops, const int* indices, int width, int longest,
    const double* kept, double* alpha, double* table
) {
    int row = held[blockIdx.x];
    if (row < 0) return;
    int64 first = (int64)slots[blockIdx.x] * width;
    const double* own = kept + 2 * (int64)blockIdx.x * longest;
    for (int e = starts[row] + threadIdx.x; e < stops[row]; e += blockDim.x) {
        alpha[first + indices[e]] = own[2 * (e - starts[row])];
        table[first + indices[e]] = own[2 * (e - starts[row]) + 1];
    }
}

// What each slot gains from each component, NaN where the sum is outside the domain: a block per pair. A component is
// allowed if it mends all columns of the slot that are outside.
extern "C" __global__ void place_gains(
    const int* slots, int components, const int* starts, const int* stops, const int* indices, const double* data,
    const double* row_sums, const double* totals, int width, const double* alpha, const double* table, const int* wrong,
    double* gains
) {
    int place = blockIdx.x / components, component = blockIdx.x % components, mended = 0, outside = 0;
    int64 first = (int64)slots[place] * width;
    double gain = 0;
    for (int e = starts[component] + threadIdx.x; e < stops[component]; e += blockDim.x) {
        double before = alpha[first + indices[e]], after = before + data[e];
        mended += !(before > 0) && after > 0;
        outside += !(after > 0);
        gain += (after > 0 ? lgamma(after) : 0.0) - table[first + indices[e]];
    }
    gain = sum_of_block(gain);
    mended = sum_of_block(mended);
    outside = sum_of_block(outside);
    if (threadIdx.x) return;
    double total = totals[place], summed = total + row_sums[component];
    bool inside = summed > 0 && !outside && mended == wrong[place];
    gain += (total > 0 ? lgamma(total) : 0.0) - (inside ? lgamma(summed) : 0.0);
    gains[blockIdx.x] = inside ? gain : nan("");
}
