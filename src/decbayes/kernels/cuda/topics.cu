// Variational updates of latent Dirichlet allocation on a GPU; ../lda.py does the same on the processor.
//
// TOPICS is defined when this is compiled. Matrices over words and topics are word-major, as there. Several sites may
// be fitted at once: the words of each have rows of their own, and `row_sites` and `document_sites` say whose they are.
// Documents are worked on by a block of a few warps each, with topics over lanes; a word's statistics by a warp. Sums
// are taken in an order that does not depend on which block comes first, so the same data give the same bits.

#include "sums.cuh"

#define PER_LANE ((TOPICS + LANES - 1) / LANES)
// Keeps n / sum finite when every term underflows; such a word then counts for no topic.
#define TINY 1e-30f

// psi(x) = log(y) - c with y = x or x + 8, as in ../special.py; the rest is x (x + 1) ... (x + 7), or 1.
template <typename Real>
__device__ __forceinline__ Real digamma_parts(Real x, Real* y, Real* c) {
    bool shifted = x < Real(8);
    Real low = shifted ? x : Real(8), product = low, derivative = Real(1);
    for (int i = 1; i < 8; ++i) {
        derivative = derivative * (low + i) + product;
        product = product * (low + i);
    }
    *y = shifted ? x + Real(8) : x;
    Real inverse = Real(1) / *y, z = inverse * inverse;
    Real series = Real(1.0 / 252) + z * (Real(-1.0 / 240) + z * (Real(1.0 / 132) + z * (Real(-691.0 / 32760) + z / 12)));
    *c = inverse / 2 + z * (Real(1.0 / 12) + z * (Real(-1.0 / 120) + z * series)) + (shifted ? derivative / product : Real(0));
    return shifted ? product : Real(1);
}

// psi(x) and log Gamma(x) by Stirling's series, with two logarithms in all.
__device__ __forceinline__ double digamma(double x, double* log_gamma) {
    double y, c, product = digamma_parts(x, &y, &c), logarithm = log(y), inverse = 1 / y, z = inverse * inverse;
    double series = 1.0 / 1260 - z * (1.0 / 1680 - z * (1.0 / 1188 - z * (691.0 / 360360 - z / 156)));
    series = inverse * (1.0 / 12 - z * (1.0 / 360 - z * series));
    *log_gamma = (y - 0.5) * logarithm - y + 0.9189385332046727 + series - log(product);
    return logarithm - c;
}

__device__ __forceinline__ float digammaf(float x) {
    float y, c;
    digamma_parts(x, &y, &c);
    return logf(y) - c;
}

__device__ __forceinline__ float exp_digammaf(float x) {
    float y, c;
    digamma_parts(x, &y, &c);
    return y * expf(-c);
}

// Lane l gets the sum of the (l % 4)-th value over all lanes: six exchanges instead of twenty.
__device__ __forceinline__ float sums_of_four(const float (&value)[4], int lane) {
    bool odd = lane & 1, upper = lane & 2;
    float low = (odd ? value[1] : value[0]) + __shfl_xor_sync(EVERY_LANE, odd ? value[0] : value[1], 1);
    float high = (odd ? value[3] : value[2]) + __shfl_xor_sync(EVERY_LANE, odd ? value[2] : value[3], 1);
    float sum = (upper ? high : low) + __shfl_xor_sync(EVERY_LANE, upper ? low : high, 2);
    sum += __shfl_xor_sync(EVERY_LANE, sum, 4);
    sum += __shfl_xor_sync(EVERY_LANE, sum, 8);
    return sum + __shfl_xor_sync(EVERY_LANE, sum, 16);
}

// exp(E[log beta] - scale) of every word, and its part of -KL(q(beta) || prior), but for log Gamma of the prior, which
// `known` has: a warp per row.
extern "C" __global__ void expect_topics(
    const double* before, const double* statistics, const double* total_digammas, const int* row_sites, const int* active,
    const double* known, int rows, float* weights, float* scales, double* divergences
) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    if (row >= rows || !active[row_sites[row]]) return;
    const double* totals = total_digammas + (int64)row_sites[row] * TOPICS;
    double expected[PER_LANE], highest = -1e308, divergence = 0;
#pragma unroll
    for (int r = 0; r < PER_LANE; ++r) {
        int k = lane + LANES * r;
        expected[r] = -1e308;
        if (k >= TOPICS) continue;
        double prior = before[(int64)row * TOPICS + k], step = statistics[(int64)row * TOPICS + k];
        double log_gamma, psi = digamma(prior + step, &log_gamma);
        expected[r] = psi - totals[k];
        divergence += log_gamma - step * psi;
        highest = fmax(highest, expected[r]);
    }
    for (int step = LANES / 2; step; step /= 2) highest = fmax(highest, __shfl_xor_sync(EVERY_LANE, highest, step));
    divergence = sum_of_lanes(divergence);
#pragma unroll
    for (int r = 0; r < PER_LANE; ++r) {
        int k = lane + LANES * r;
        if (k < TOPICS) weights[(int64)row * TOPICS + k] = (float)exp(expected[r] - highest);
    }
    if (lane == 0) {
        scales[row] = (float)highest;
        divergences[row] = divergence - known[row];
    }
}

// Groups of four words whose rows a warp keeps in registers; with many topics they would not fit.
#define KEPT (PER_LANE <= 4 ? 4 : 0)
#define ROOM (KEPT ? KEPT : 1)

// What a block knows of its document. The rows of its first `staged` words are copied to shared memory, by the warp that
// reads them, if none are kept in registers.
struct Document {
    const int *counts, *columns;
    const float* weights;
    float* rows;
    int words, staged;

    __device__ __forceinline__ const float* row(int word) const {
        return word < staged ? rows + word * TOPICS : weights + (int64)columns[word] * TOPICS;
    }

    // The weights of words i to i + 3, those of word i past the last.
    __device__ __forceinline__ void read_four(int i, int lane, float (&four)[4][PER_LANE]) const {
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const float* from = row(i + q < words ? i + q : i);
#pragma unroll
            for (int r = 0; r < PER_LANE; ++r) {
                int k = lane + LANES * r;
                four[q][r] = k < TOPICS ? from[k] : 0.0f;
            }
        }
    }
};

// In lane l, n / sum_k weights_k shares_k of word i + l % 4, zero past the last.
__device__ __forceinline__ float ratios_of_four(
    const Document& document, int i, const float (&shares)[PER_LANE], int lane, const float (&weights)[4][PER_LANE], float* norm
) {
    float sums[4];
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        sums[q] = 0;
#pragma unroll
        for (int r = 0; r < PER_LANE; ++r) sums[q] += shares[r] * weights[q][r];
    }
    *norm = sums_of_four(sums, lane) + TINY;
    int word = i + lane % 4;
    return word < document.words ? document.counts[word] / *norm : 0.0f;
}

// Add what words i to i + 3 say of the document's topics.
__device__ __forceinline__ void add_four(
    const Document& document, int i, const float (&shares)[PER_LANE], int lane, const float (&weights)[4][PER_LANE],
    float (&sums)[PER_LANE]
) {
    float norm, ratio = ratios_of_four(document, i, shares, lane, weights, &norm);
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        float of_word = __shfl_sync(EVERY_LANE, ratio, q);
#pragma unroll
        for (int r = 0; r < PER_LANE; ++r) sums[r] += of_word * weights[q][r];
    }
}

// Write n / sum_k weights_k shares_k of words i to i + 3; the part of the bound of the one that this lane writes.
__device__ __forceinline__ float bound_of_four(
    const Document& document, int i, const float (&shares)[PER_LANE], int lane, const float (&weights)[4][PER_LANE],
    const float* scales, float* ratios
) {
    float norm, ratio = ratios_of_four(document, i, shares, lane, weights, &norm);
    int word = i + lane;
    if (lane >= 4 || word >= document.words) return 0;
    ratios[word] = ratio;
    return document.counts[word] * (logf(norm) + scales[document.columns[word]]);
}

// gamma of documents: a block of blockDim.x / 32 warps per document, which share its words.
extern "C" __global__ __launch_bounds__(512) void update_documents(
    const int* documents, const int64* offsets, const int* counts, const int* columns, const int* document_sites,
    const int* active, const float* weights, const float* scales, const float* prior, int fresh, float tolerance,
    int most_steps, int capacity, float* gamma, float* proportions, float* ratios, float* bounds
) {
    DYNAMIC_SHARED(float, shared);
    int number = documents[blockIdx.x], lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    if (!active[document_sites[number]]) return;
    float *shares = shared, *own = shares + TOPICS, *partial = own + TOPICS, *moved = partial + warps * TOPICS;
    float *rows = moved + 3 * LANES, *found = gamma + (int64)number * TOPICS;
    int64 start = offsets[number];
    int size = (int)(offsets[number + 1] - start);
    Document document = {counts + start, columns + start, weights, rows, size, size < capacity ? size : capacity};
    for (int i = 4 * warp; i < document.staged; i += 4 * warps)
        for (int q = 0; q < 4 && i + q < document.staged; ++q)
            for (int k = lane; k < TOPICS; k += LANES)
                rows[(i + q) * TOPICS + k] = weights[(int64)document.columns[i + q] * TOPICS + k];
    for (int k = threadIdx.x; k < TOPICS; k += blockDim.x) {
        own[k] = fresh ? 1.0f : found[k];
        shares[k] = exp_digammaf(own[k]);
    }
    float kept[ROOM][4][PER_LANE], weight[4][PER_LANE];
#pragma unroll
    for (int g = 0; g < KEPT; ++g)
        if (4 * (warp + g * warps) < size) document.read_four(4 * (warp + g * warps), lane, kept[g]);
    __syncthreads();

    float share[PER_LANE], sums[PER_LANE];
    for (int step = 0; step < most_steps; ++step) {
#pragma unroll
        for (int r = 0; r < PER_LANE; ++r) {
            int k = lane + LANES * r;
            share[r] = k < TOPICS ? shares[k] : 0.0f;
            sums[r] = 0;
        }
#pragma unroll
        for (int g = 0; g < KEPT; ++g)
            if (4 * (warp + g * warps) < size) add_four(document, 4 * (warp + g * warps), share, lane, kept[g], sums);
        for (int i = 4 * (warp + KEPT * warps); i < size; i += 4 * warps) {
            document.read_four(i, lane, weight);
            add_four(document, i, share, lane, weight, sums);
        }
#pragma unroll
        for (int r = 0; r < PER_LANE; ++r) {
            int k = lane + LANES * r;
            if (k < TOPICS) partial[warp * TOPICS + k] = sums[r];
        }
        __syncthreads();
        float change = 0;
        for (int k = threadIdx.x; k < TOPICS; k += blockDim.x) {
            float sum = 0;
            for (int w = 0; w < warps; ++w) sum += partial[w * TOPICS + k];
            float updated = prior[k] + shares[k] * sum;
            change += fabsf(updated - own[k]);
            own[k] = updated;
            shares[k] = exp_digammaf(updated);
        }
        change = sum_of_lanes(change);
        if (lane == 0) moved[warp] = change;
        __syncthreads();
        change = 0;
        for (int w = 0; w < warps; ++w) change += moved[w];
        if (change < tolerance * TOPICS) break;
    }

    float bound = 0;
#pragma unroll
    for (int r = 0; r < PER_LANE; ++r) {
        int k = lane + LANES * r;
        share[r] = k < TOPICS ? shares[k] : 0.0f;
    }
#pragma unroll
    for (int g = 0; g < KEPT; ++g) {
        int i = 4 * (warp + g * warps);
        if (i < size) bound += bound_of_four(document, i, share, lane, kept[g], scales, ratios + start);
    }
    for (int i = 4 * (warp + KEPT * warps); i < size; i += 4 * warps) {
        document.read_four(i, lane, weight);
        bound += bound_of_four(document, i, share, lane, weight, scales, ratios + start);
    }
    float known = 0, total = 0;
    for (int k = threadIdx.x; k < TOPICS; k += blockDim.x) {
        proportions[(int64)number * TOPICS + k] = shares[k];
        found[k] = own[k];
        bound += lgammaf(own[k]) - lgammaf(prior[k]) - (own[k] - prior[k]) * digammaf(own[k]);
        known += prior[k];
        total += own[k];
    }
    bound = sum_of_lanes(bound), known = sum_of_lanes(known), total = sum_of_lanes(total);
    __syncthreads();
    if (lane == 0) moved[warp] = bound, moved[warps + warp] = known, moved[2 * warps + warp] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        bound = known = total = 0;
        for (int w = 0; w < warps; ++w) bound += moved[w], known += moved[warps + w], total += moved[2 * warps + w];
        bounds[number] = bound + lgammaf(known) - lgammaf(total);
    }
}

// sum_d n_dw phi_dwk / weights_wk over a segment of the places where one word occurs: a warp per segment.
extern "C" __global__ void sum_segments(
    const int64* segments, int count, const int* entries, const int* documents, const float* ratios,
    const float* proportions, float* partial
) {
    int segment = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    if (segment >= count) return;
    double sums[PER_LANE] = {0};
    int64 last = segments[segment + 1];
    for (int64 first = segments[segment]; first < last; first += LANES) {
        bool there = first + lane < last;
        float ratio = there ? ratios[entries[first + lane]] : 0.0f;
        int document = there ? documents[first + lane] : 0, size = last - first < LANES ? (int)(last - first) : LANES;
        float some[PER_LANE] = {0};
        for (int i = 0; i < size; ++i) {
            float of_place = __shfl_sync(EVERY_LANE, ratio, i);
            const float* shares = proportions + (int64)__shfl_sync(EVERY_LANE, document, i) * TOPICS;
#pragma unroll
            for (int r = 0; r < PER_LANE; ++r) {
                int k = lane + LANES * r;
                if (k < TOPICS) some[r] += of_place * shares[k];
            }
        }
#pragma unroll
        for (int r = 0; r < PER_LANE; ++r) sums[r] += some[r];
    }
#pragma unroll
    for (int r = 0; r < PER_LANE; ++r) {
        int k = lane + LANES * r;
        if (k < TOPICS) partial[(int64)segment * TOPICS + k] = (float)sums[r];
    }
}

// statistics += weights times the sum of each word's segments: a warp per row.
extern "C" __global__ void add_segments(
    const int* first_segments, int rows, const float* partial, const float* weights, double* statistics
) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    if (row >= rows) return;
    for (int k = lane; k < TOPICS; k += LANES) {
        double sum = 0;
        for (int s = first_segments[row]; s < first_segments[row + 1]; ++s) sum += partial[(int64)s * TOPICS + k];
        statistics[(int64)row * TOPICS + k] += sum * weights[(int64)row * TOPICS + k];
    }
}

// Sums over spans of rows: of each topic's statistics, and of the divergences. A block per span.
extern "C" __global__ void sum_rows(
    const int* spans, const double* statistics, const double* divergences, double* totals, double* divergence
) {
    int first = spans[2 * blockIdx.x], last = spans[2 * blockIdx.x + 1];
    for (int k = threadIdx.x; k < TOPICS; k += blockDim.x) {
        double sum = 0;
        for (int row = first; row < last; ++row) sum += statistics[(int64)row * TOPICS + k];
        totals[(int64)blockIdx.x * TOPICS + k] = sum;
    }
    if (threadIdx.x >= LANES) return;
    double sum = 0;
    for (int row = first + threadIdx.x; row < last; row += LANES) sum += divergences[row];
    sum = sum_of_lanes(sum);
    if (threadIdx.x == 0) divergence[blockIdx.x] = sum;
}

// Sums over spans of documents of their parts of the bound. A warp per span.
extern "C" __global__ void sum_documents(const int* spans, const float* bounds, double* sums) {
    double sum = 0;
    for (int d = spans[2 * blockIdx.x] + threadIdx.x; d < spans[2 * blockIdx.x + 1]; d += LANES) sum += bounds[d];
    sum = sum_of_lanes(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// Sums of each site's blocks, in their order: a warp per site.
extern "C" __global__ void sum_blocks(const int* firsts, int width, const double* sums, double* totals) {
    for (int k = threadIdx.x; k < width; k += LANES) {
        double sum = 0;
        for (int block = firsts[blockIdx.x]; block < firsts[blockIdx.x + 1]; ++block) sum += sums[(int64)block * width + k];
        totals[(int64)blockIdx.x * width + k] = sum;
    }
}

// Of each site digamma of its topics' totals, and the part of -KL(q(beta) || prior) that these have: a warp per site.
extern "C" __global__ void know_totals(const double* before, const double* added, double* digammas, double* divergences) {
    double divergence = 0;
    for (int k = threadIdx.x; k < TOPICS; k += LANES) {
        int64 place = (int64)blockIdx.x * TOPICS + k;
        double before_it, after_it;
        digamma(before[place], &before_it);
        double psi = digamma(before[place] + added[place], &after_it);
        divergence += after_it - before_it - added[place] * psi;
        digammas[place] = psi;
    }
    divergence = sum_of_lanes(divergence);
    if (threadIdx.x == 0) divergences[blockIdx.x] = divergence;
}

// The document of every entry. A warp per document.
extern "C" __global__ void name_documents(const int64* offsets, int count, int* documents) {
    int number = (blockIdx.x * blockDim.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    if (number >= count) return;
    for (int64 entry = offsets[number] + lane; entry < offsets[number + 1]; entry += LANES) documents[entry] = number;
}
