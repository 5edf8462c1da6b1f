// CUDA's words for a processor: the threads of a block take turns, and wait for each other where a GPU's would.
//
// Every thread is a fiber with a stack of its own. Lanes exchange values through two buffers in turn: a lane may be one
// exchange ahead of the others, never two. Blocks run one after the other, or together: each in a thread of the
// processor, with shared memory of its own. One of them can be late whenever they have met, as any block of a GPU may
// be.

#include <csetjmp>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static thread_local
#define WAIT_UNTIL(condition) emulation::wait_until([&] { return condition; })
#define DYNAMIC_SHARED(type, name) type* name = reinterpret_cast<type*>(emulation::shared.data())

struct Dimensions { unsigned x = 1; };
static thread_local Dimensions threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {

constexpr unsigned lanes = 32, stack_bytes = 1 << 17;

struct Fiber {
    ucontext_t first;
    jmp_buf state;
    std::unique_ptr<char[]> stack{new char[stack_bytes]};
    bool begun = false, done = false;
    long exchanges = 0, barriers = 0;
};

struct Warp {
    uint64_t values[2][lanes];
    long arrivals = 0;
};

static thread_local std::vector<Fiber> fibers;
static thread_local std::vector<Warp> warps;
static thread_local std::vector<double> shared;
static thread_local long barrier_arrivals, finished;
static thread_local unsigned current;
static thread_local jmp_buf scheduler;
static std::function<void()> body;
static std::atomic<bool> stuck;  // blocks have waited for each other for too long; then none waits any more
static int late = -1;

template <typename Condition>
static void wait_until(Condition reached) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!reached() && !stuck) {
        if (std::chrono::steady_clock::now() > end) stuck = true;
        std::this_thread::yield();
    }
    if ((int)blockIdx.x == late) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

static void yield() {
    unsigned self = current;
    if (!_setjmp(fibers[self].state)) _longjmp(scheduler, 1);
    threadIdx.x = self;
}

static void enter() {
    body();
    fibers[current].done = true;
    ++finished;
    _longjmp(scheduler, 1);
}

// Run fibers in turn until all are done; one that waits for what cannot come is an error, where a GPU would hang.
static void run_block(unsigned threads) {
    fibers = std::vector<Fiber>(threads);
    warps = std::vector<Warp>((threads + lanes - 1) / lanes);
    barrier_arrivals = finished = 0;
    for (long turns = 0; finished < (long)threads; ++turns) {
        if (turns > 100000000) throw std::runtime_error("threads wait for each other forever");
        for (volatile unsigned i = 0; i < threads; i = i + 1) {
            if (fibers[i].done) continue;
            current = threadIdx.x = i;
            if (_setjmp(scheduler)) continue;
            if (fibers[i].begun) _longjmp(fibers[i].state, 1);
            fibers[i].begun = true;
            getcontext(&fibers[i].first);
            fibers[i].first.uc_stack.ss_sp = fibers[i].stack.get();
            fibers[i].first.uc_stack.ss_size = stack_bytes;
            fibers[i].first.uc_link = nullptr;
            makecontext(&fibers[i].first, enter, 0);
            setcontext(&fibers[i].first);
        }
    }
}

// Whether it came to an end by itself.
static bool launch(int blocks, int threads, int shared_bytes, bool together, std::function<void()> kernel) {
    body = std::move(kernel);
    stuck = false;
    auto run = [=](int block) {
        blockDim.x = threads, gridDim.x = blocks, blockIdx.x = block;
        shared.assign((shared_bytes + 7) / 8, NAN);  // what nobody has written must not be read
        run_block(threads);
    };
    std::vector<std::thread> running;
    for (int block = 0; block < blocks; ++block) together ? (void)running.emplace_back(run, block) : run(block);
    for (auto& each : running) each.join();
    return !stuck;
}

template <typename Value>
Value exchanged(Value value, unsigned from) {
    unsigned self = current;
    Warp& warp = warps[self / lanes];
    long number = fibers[self].exchanges++;
    std::memcpy(&warp.values[number & 1][self % lanes], &value, sizeof value);
    ++warp.arrivals;
    while (warp.arrivals < (number + 1) * (long)lanes) yield();
    std::memcpy(&value, &warp.values[number & 1][from % lanes], sizeof value);
    return value;
}

}  // namespace emulation

template <typename Value>
Value __shfl_xor_sync(unsigned, Value value, int mask) {
    return emulation::exchanged(value, (threadIdx.x % emulation::lanes) ^ mask);
}

template <typename Value>
Value __shfl_sync(unsigned, Value value, int lane) {
    return emulation::exchanged(value, lane);
}

inline void __syncthreads() {
    long number = emulation::fibers[emulation::current].barriers++;
    ++emulation::barrier_arrivals;
    while (emulation::barrier_arrivals < (number + 1) * (long)blockDim.x) emulation::yield();
}

inline unsigned __ballot_sync(unsigned, bool chosen) {
    unsigned all = 0;
    for (unsigned lane = 0; lane < emulation::lanes; ++lane) {
        unsigned own = emulation::exchanged((unsigned)chosen, lane);
        all |= own << lane;
    }
    return all;
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline unsigned atomicAdd(unsigned* at, unsigned more) { return __atomic_fetch_add(at, more, __ATOMIC_SEQ_CST); }

extern "C" void set_late(int block) { emulation::late = block; }
