// Any component into any slot on a GPU: single moves while one gains; ../../merging/search.py does the same.
//
// A search is worked on by a team of blocks, several searches by several teams at once. Every block of a team knows who
// is in which slot, and decides the same from the same gains; what the slots hold, and the gains, are in common. A slot
// is changed by one block only. Blocks of a team wait for each other, so all of them must run at the same time.

#include "sums.cuh"

#ifndef WAIT_UNTIL
// A few microseconds. After about half a minute it is an error: some blocks are not running.
#define WAIT_UNTIL(condition) for (unsigned turns = 0; !(condition); ++turns) if (turns >> 26) __trap()
#endif
#define BATCH 64

struct Rows {
    const int *starts, *stops, *indices;
    const double *data, *sums;
};

struct Team {
    int rank, size;
    unsigned *arrived, awaited;

    // Until all blocks of the team are here, and what they have written can be read.
    __device__ void wait() {
        __syncthreads();
        if (size > 1 && threadIdx.x == 0) {
            awaited += size;
            __threadfence();
            atomicAdd(arrived, 1u);
            WAIT_UNTIL(*(volatile unsigned*)arrived >= awaited);
            __threadfence();
        }
        __syncthreads();
    }
};

// The place of the largest of so many values; every warp finds it by itself.
template <typename Values>
__device__ __forceinline__ int largest_of(int count, Values value) {
    Best best = {-HUGE_NUMBER, count};
    for (int i = threadIdx.x % LANES; i < count; i += LANES) best = larger(best, {value(i), i});
    return largest_of_lanes(best).place;
}

struct Search {
    Rows rows;
    Team team;
    const int* members;  // the row at each position, in the order of visits
    int size, slots, width, warp, warps, lane;
    double least_gain;
    // In common: (slots, width) of what slots hold and its y log y; (positions, slots) of gains, and how old they are.
    double *counts, *table, *slot_totals, *gains;
    int* seen;
    // Each block's own, all alike.
    double *sureness, *totals;
    int *labels, *waiting, *versions, *wishes;

    // What slots gain from rows, or have gained from those they hold, where slots have changed since: a warp per pair.
    __device__ void evaluate(int first, int count) {
        for (int pair = team.rank * warps + warp; pair < count * slots; pair += team.size * warps) {
            int position = waiting[first + pair / slots], slot = pair % slots;
            if (seen[position * slots + slot] == versions[slot]) continue;
            note(position, slot, sum_of_lanes(part_of_change(position, slot, lane, LANES)), lane == 0);
        }
        team.wait();
    }

    __device__ double part_of_change(int position, int slot, int first, int stride) const {
        int row = members[position], last = rows.stops[row];
        double sign = labels[position] == slot ? -1.0 : 1.0, part = 0;
        const double *held = counts + (int64)slot * width, *known = table + (int64)slot * width;
        for (int e = rows.starts[row] + first; e < last; e += stride) {
            int column = rows.indices[e];
            part += g(held[column] + sign * rows.data[e]) - known[column];
        }
        return part;
    }

    __device__ void note(int position, int slot, double change, bool writes) {
        if (!writes) return;
        double sign = labels[position] == slot ? -1.0 : 1.0, total = totals[slot];
        gains[position * slots + slot] = sign * (change - (g(total + sign * rows.sums[members[position]]) - g(total)));
        seen[position * slots + slot] = versions[slot];
    }

    // Whether a component would gain by a move to the slot.
    __device__ bool gains_by(int position, int slot) const {
        const double* own = gains + position * slots;
        double now = labels[position] < 0 ? -HUGE_NUMBER : own[labels[position]];
        return own[slot] > now + least_gain * rows.sums[members[position]];
    }

    // Which of some components wish to move, and how sure they are of their slots: a warp per component.
    __device__ void look(int first, int count) {
        for (int place = warp; place < count; place += warps) {
            int position = waiting[first + place];
            const double* own = gains + position * slots;
            int best = largest_of(slots, [=](int slot) { return own[slot]; });
            int next = largest_of(slots, [=](int slot) { return slot == best ? -HUGE_NUMBER : own[slot]; });
            if (lane) continue;
            wishes[place] = gains_by(position, best);
            if (slots > 1) sureness[position] = (own[best] - own[next]) / fmax(rows.sums[members[position]], 1e-300);
        }
        __syncthreads();
    }

    // Move one component into its best slot, if that gains. A slot is looked at, and changed, by one block.
    __device__ bool visit(int position, bool stale) {
        if (stale) {
            for (int slot = team.rank; slot < slots; slot += team.size) {
                if (seen[position * slots + slot] == versions[slot]) continue;
                double change = sum_of_block(part_of_change(position, slot, threadIdx.x, blockDim.x));
                note(position, slot, change, threadIdx.x == 0);
            }
            team.wait();
        }
        const double* own = gains + position * slots;
        int before = labels[position], after = largest_of(slots, [=](int slot) { return own[slot]; });
        if (!gains_by(position, after)) return false;
        __syncthreads();
        if (before >= 0) add(position, before, -1.0);
        add(position, after, 1.0);
        if (threadIdx.x == 0) labels[position] = after;
        __syncthreads();
        return true;
    }

    __device__ void add(int position, int slot, double sign) {
        int row = members[position];
        if (threadIdx.x == 0) totals[slot] += sign * rows.sums[row], ++versions[slot];
        if (slot % team.size != team.rank) return;
        double *held = counts + (int64)slot * width, *known = table + (int64)slot * width;
        for (int e = rows.starts[row] + threadIdx.x; e < rows.stops[row]; e += blockDim.x) {
            double value = held[rows.indices[e]] += sign * rows.data[e];
            known[rows.indices[e]] = g(value);
        }
    }

    // The positions that are less sure than this, in order.
    __device__ int collect(double below) {
        int found = 0;
        for (int first = 0; first < size; first += LANES) {
            bool chosen = first + lane < size && sureness[first + lane] < below;
            unsigned all = __ballot_sync(EVERY_LANE, chosen);
            if (chosen && warp == 0) waiting[found + __popc(all & ((1u << lane) - 1))] = first + lane;
            found += __popc(all);
        }
        __syncthreads();
        return found;
    }

    // Give every component that is not sure of its slot one chance to move; whether any did.
    __device__ bool sweep(double below) {
        bool moved = false;
        int count = collect(below);
        for (int first = 0; first < count; first += BATCH) {
            int some = count - first < BATCH ? count - first : BATCH;
            evaluate(first, some);
            look(first, some);
            bool stale = false;
            for (int place = 0; place < some; ++place) {
                if (!wishes[place] || !visit(waiting[first + place], stale)) continue;
                // From here on gains are written that other blocks may still be looking at.
                if (!stale) team.wait();
                stale = true;
            }
            if (stale) team.wait();
            moved |= stale;
        }
        __syncthreads();
        return moved;
    }

    // Sum the slots anew: adding and subtracting accumulates rounding.
    __device__ void refill() {
        for (int slot = team.rank; slot < slots; slot += team.size) {
            double *held = counts + (int64)slot * width, *known = table + (int64)slot * width, total = 0;
            for (int column = threadIdx.x; column < width; column += blockDim.x) held[column] = 0;
            __syncthreads();
            for (int position = 0; position < size; ++position) {
                if (labels[position] != slot) continue;
                int row = members[position];
                for (int e = rows.starts[row] + threadIdx.x; e < rows.stops[row]; e += blockDim.x)
                    held[rows.indices[e]] += rows.data[e];
                total += rows.sums[row];
                __syncthreads();
            }
            for (int column = threadIdx.x; column < width; column += blockDim.x) known[column] = g(held[column]);
            if (threadIdx.x == 0) slot_totals[slot] = total;
        }
        team.wait();
        for (int slot = threadIdx.x; slot < slots; slot += blockDim.x) totals[slot] = slot_totals[slot];
        __syncthreads();
    }

    // Of one slot the member, but for one, that loses most by being in it.
    __device__ int worst(const double* alone, int except) {
        evaluate(0, collect(HUGE_NUMBER));
        return largest_of(size, [=](int position) {
            return position == except ? -HUGE_NUMBER : alone[members[position]] - gains[position * slots];
        });
    }

    // One or two components into slots of their own, all others into one, or nowhere.
    __device__ void put(int label, int first, int second) {
        __syncthreads();
        for (int position = threadIdx.x; position < size; position += blockDim.x)
            labels[position] = position == first ? 0 : position == second ? 1 : label;
        for (int slot = threadIdx.x; slot < slots; slot += blockDim.x) ++versions[slot];
        refill();
    }

    // Two members to begin two slots with: the one that fits worst into one, and the one farthest from it.
    __device__ void begin_halves(const double* alone) {
        put(0, -1, -1);
        int first = worst(alone, -1);
        put(-1, first, -1);
        put(-1, first, worst(alone, first));
    }

    __device__ void move_on(int most, int asides, double sure) {
        for (int round = 0; round < most && sweep(HUGE_NUMBER); ++round) {
            for (int aside = 0; aside < asides && sweep(sure); ++aside) {}
            refill();
        }
    }
};

// Searches from `labels`, or, where `halving`, for the best two slots; F of each slot in the end. `team` blocks each.
extern "C" __global__ __launch_bounds__(512) void climb(
    const int* starts, const int* stops, const int* indices, const double* data, const double* sums, const double* alone,
    const int* members, const int* spans, int team, int slots, int width, int halving, int most, int asides, double sure,
    double least_gain, unsigned* arrived, double* counts, double* table, double* totals, double* gains, int* seen,
    int* labels, double* values
) {
    DYNAMIC_SHARED(double, shared);
    int number = blockIdx.x / team, first = spans[number], size = spans[number + 1] - first;
    int64 own = (int64)number * slots;
    double* sureness = shared;
    int* kept = (int*)(sureness + size + slots);
    Search search = {
        {starts, stops, indices, data, sums}, {(int)blockIdx.x % team, team, arrived + number, 0}, members + first,
        size, slots, width, (int)threadIdx.x / LANES, (int)blockDim.x / LANES, (int)threadIdx.x % LANES, least_gain,
        counts + own * width, table + own * width, totals + own, gains + (int64)first * slots, seen + (int64)first * slots,
        sureness, sureness + size, kept, kept + size, kept + 2 * size, kept + 2 * size + slots
    };
    for (int position = threadIdx.x; position < size; position += blockDim.x) {
        search.labels[position] = labels[first + position];
        search.sureness[position] = -HUGE_NUMBER;
    }
    for (int slot = threadIdx.x; slot < slots; slot += blockDim.x) search.versions[slot] = 0;
    __syncthreads();
    if (halving) search.begin_halves(alone);
    else search.refill();
    search.move_on(most, asides, sure);
    for (int slot = search.team.rank; slot < slots; slot += team) {
        double sum = 0;
        for (int column = threadIdx.x; column < width; column += blockDim.x) sum += search.table[(int64)slot * width + column];
        sum = sum_of_block(sum);
        if (threadIdx.x == 0) values[own + slot] = sum - g(search.totals[slot]);
    }
    if (search.team.rank) return;
    for (int position = threadIdx.x; position < size; position += blockDim.x) labels[first + position] = search.labels[position];
}

// What each row knows by itself. A block per row.
extern "C" __global__ void know_alone(const int* starts, const int* stops, const double* data, const double* sums, double* alone) {
    double sum = 0;
    for (int e = starts[blockIdx.x] + threadIdx.x; e < stops[blockIdx.x]; e += blockDim.x) sum += g(data[e]);
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) alone[blockIdx.x] = sum - g(sums[blockIdx.x]);
}
