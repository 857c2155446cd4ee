/* The leading blocks of a small convolutional network, each a convolution (stride 1, no padding), 2x2 max pooling, ReLU.

   Samples lie side by side in the lanes of a vector, LANES of them in a group: [channel][row][column][lane]. Every
   product then fills whole vectors however few the channels are, and sums stay in registers. A group passes all blocks
   before the next one begins, so that what it needs stays in the cache. Sizes are constants of the compilation: BLOCKS
   is a list of Block<C, H, W, O, K> (input channels, height, width, output channels, kernel side).

   NaN goes through as in torch: the maximum of four values of which one is NaN is NaN, and so is its ReLU. */
#include <string.h>

#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif
typedef float v __attribute__((vector_size(4 * LANES), aligned(4 * LANES)));
typedef int vi __attribute__((vector_size(4 * LANES), aligned(4 * LANES)));
typedef float unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* The largest of a few divisors, so that sums of a group fit the registers. */
constexpr int divisor(int n, int a, int b, int c) { return n % a == 0 ? a : n % b == 0 ? b : n % c == 0 ? c : 1; }

/* Rows to columns of LANES vectors. */
static inline void transpose(v m[LANES]) {
    vi low, high;
    for (int l = 0; l < LANES; l++) {
        low[l] = l / 2 + l % 2 * LANES;
        high[l] = low[l] + LANES / 2;
    }
#pragma GCC unroll 4
    for (int step = 1; step < LANES; step *= 2) {
        v mixed[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < LANES / 2; i++) {
            mixed[2 * i] = __builtin_shuffle(m[i], m[i + LANES / 2], low);
            mixed[2 * i + 1] = __builtin_shuffle(m[i], m[i + LANES / 2], high);
        }
        memcpy(m, mixed, sizeof mixed);
    }
}

/* [here samples][AREA][CHANNELS] to lanes; lanes without a sample are 0. Values are taken LANES at a time from LANES
   samples. */
template <int CHANNELS, int AREA> static void pack(int here, const float *from, v *to) {
    constexpr int size = CHANNELS * AREA;
    for (int i = 0; i < size; i += LANES) {
        int width = size - i < LANES ? size - i : LANES;
        v m[LANES] = {};
        for (int l = 0; l < here; l++)
            if (width == LANES)
                m[l] = *(const unaligned *)(from + l * size + i);
            else
                memcpy(&m[l], from + l * size + i, 4 * width);
        transpose(m);
        for (int k = 0; k < width; k++) to[(i + k) % CHANNELS * AREA + (i + k) / CHANNELS] = m[k];
    }
}

/* Lanes to [here samples][AREA][CHANNELS]. */
template <int CHANNELS, int AREA> static void unpack(int here, const v *from, float *to) {
    constexpr int size = CHANNELS * AREA;
    for (int i = 0; i < size; i += LANES) {
        int width = size - i < LANES ? size - i : LANES;
        v m[LANES] = {};
        for (int k = 0; k < width; k++) m[k] = from[(i + k) % CHANNELS * AREA + (i + k) / CHANNELS];
        transpose(m);
        for (int l = 0; l < here; l++) memcpy(to + l * size + i, &m[l], 4 * width);
    }
}

static float total(v lanes) {
    float sum = 0;
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    return sum;
}

template <int C, int H, int W, int O, int K> struct Block {
    static constexpr int PH = (H - K + 1) / 2, PW = (W - K + 1) / 2, INPUT = C * H * W, AREA = PH * PW, SIZE = O * AREA;
    static constexpr int CHANNELS = C, OUTPUTS = O;
    static constexpr int OB = divisor(O, 6, 4, 2), CB = divisor(C, 3, 4, 2), PIECE = (K * C + LANES - 1) / LANES;

    float forth[O / OB][C][K][K][OB], back[K][C / CB][O][K][CB], bias[O];
    v sums[O][K][PIECE], biases[O];

    /* Weights in the order in which each direction reads them, and sums of gradients that start at 0. */
    void begin(const float *weight, const float *offsets) {
        memcpy(bias, offsets, sizeof bias);
        memset(sums, 0, sizeof sums);
        memset(biases, 0, sizeof biases);
        for (int o = 0; o < O; o++)
            for (int c = 0; c < C; c++)
                for (int i = 0; i < K; i++)
                    for (int j = 0; j < K; j++)
                        forth[o / OB][c][i][j][o % OB] = back[i][c / CB][o][j][c % CB] =
                            weight[((o * C + c) * K + i) * K + j];
    }

    /* y[O][PH][PW] = relu(max over 2x2 of conv(x) + bias). place: which of the four was the (first) maximum, -1 where
       ReLU cuts. */
    void forward(const v *x, v *y, vi *place) const {
        for (int g = 0; g < O / OB; g++)
            for (int p = 0; p < PH; p++)
                for (int q = 0; q < PW; q++) {
                    v sum[OB][4];
                    for (int o = 0; o < OB; o++)
                        for (int k = 0; k < 4; k++) sum[o][k] = v{} + bias[g * OB + o];
                    for (int c = 0; c < C; c++)
                        for (int i = 0; i < K; i++) {
                            const v *top = x + (c * H + 2 * p + i) * W + 2 * q, *low = top + W;
                            for (int j = 0; j < K; j++)
#pragma GCC unroll 8
                                for (int o = 0; o < OB; o++) {
                                    float factor = forth[g][c][i][j][o];
                                    sum[o][0] += top[j] * factor;
                                    sum[o][1] += top[j + 1] * factor;
                                    sum[o][2] += low[j] * factor;
                                    sum[o][3] += low[j + 1] * factor;
                                }
                        }
#pragma GCC unroll 8
                    for (int o = 0; o < OB; o++) {
                        v best = sum[o][0];
                        vi where = {};
                        for (int k = 1; k < 4; k++) {
                            vi larger = (sum[o][k] > best) | (sum[o][k] != sum[o][k]);
                            best = larger ? sum[o][k] : best;
                            where = larger ? vi{} + k : where;
                        }
                        vi off = best <= 0;
                        int at = ((g * OB + o) * PH + p) * PW + q;
                        y[at] = off ? v{} : best;
                        place[at] = off ? vi{} - 1 : where;
                    }
                }
    }

    /* What a sample adds to the gradient of one output's weights: each slope times the piece of the image that its
       maximum looked at. One of the four places of a pool has a slope, so that this is a quarter of the products of a
       convolution. Images are [H][W][C] here: a row of a piece is K * C values side by side, and what is beside it
       falls into lanes that nobody reads. */
    static void add_pieces(const float *image, const float *slopes, const int *pieces, v sums[K][PIECE]) {
        v sum[K][PIECE];
        memcpy(sum, sums, sizeof sum);
        for (int n = 0; n < AREA; n++) {
            const float *piece = image + pieces[n * LANES];
            v slope = v{} + slopes[n * LANES];
#pragma GCC unroll 8
            for (int i = 0; i < K; i++)
#pragma GCC unroll 8
                for (int k = 0; k < PIECE; k++)
                    sum[i][k] += slope * *(const unaligned *)(piece + i * W * C + k * LANES);
        }
        memcpy(sums, sum, sizeof sum);
    }

    /* From dy[O][PH][PW], the gradient with respect to y: that of weights and bias is added up. images[l] is the
       [H][W][C] of a sample, followed by at least LANES values that may be read. */
    void add_gradients(int here, const float *const *images, const vi *place, const v *dy) {
        static thread_local v slopes[AREA];
        static thread_local vi pieces[AREA];
        for (int o = 0; o < O; o++) {
            for (int n = 0; n < AREA; n++) {
                vi at = place[o * AREA + n];
                slopes[n] = at >= 0 ? dy[o * AREA + n] : v{};
                biases[o] += slopes[n];
                pieces[n] = at >= 0 ? ((at >> 1) * W + (at & 1) + 2 * (n / PW * W + n % PW)) * C : vi{};
            }
            for (int l = 0; l < here; l++)
                add_pieces(images[l], (const float *)slopes + l, (const int *)pieces + l, sums[o]);
        }
    }

    /* From the same, dx[C][H][W]. */
    void backward(const vi *place, const v *dy, v *dx) const {
        static thread_local v rows[2][O][2 * PW];
        memset(dx, 0, sizeof(v) * INPUT);
        for (int p = 0; p < PH; p++) {
            for (int o = 0; o < O; o++) /* two rows of the convolution's gradient: each slope where its maximum was */
                for (int q = 0; q < PW; q++) {
                    v slope = dy[(o * PH + p) * PW + q];
                    vi at = place[(o * PH + p) * PW + q];
                    for (int k = 0; k < 4; k++) rows[k / 2][o][2 * q + k % 2] = at == k ? slope : v{};
                }
            for (int r = 0; r < 2; r++)
                for (int i = 0; i < K; i++)
                    for (int c = 0; c < C; c += CB)
                        for (int q = 0; q < 2 * PW; q++) {
                            v sum[CB][K], *line = dx + (c * H + 2 * p + r + i) * W + q;
#pragma GCC unroll 8
                            for (int d = 0; d < CB; d++)
#pragma GCC unroll 8
                                for (int j = 0; j < K; j++) sum[d][j] = line[d * H * W + j];
                            for (int o = 0; o < O; o++) {
                                v slope = rows[r][o][q];
#pragma GCC unroll 8
                                for (int j = 0; j < K; j++)
#pragma GCC unroll 8
                                    for (int d = 0; d < CB; d++) sum[d][j] += slope * back[i][c / CB][o][j][d];
                            }
#pragma GCC unroll 8
                            for (int d = 0; d < CB; d++)
#pragma GCC unroll 8
                                for (int j = 0; j < K; j++) line[d * H * W + j] = sum[d][j];
                        }
        }
    }

    void end(float *dweight, float *dbias) const {
        for (int o = 0; o < O; o++) {
            dbias[o] = total(biases[o]);
            for (int c = 0; c < C; c++)
                for (int i = 0; i < K; i++)
                    for (int j = 0; j < K; j++)
                        dweight[((o * C + c) * K + i) * K + j] = sums[o][i][(j * C + c) / LANES][(j * C + c) % LANES];
        }
    }
};

/* Blocks one after the other. What a group leaves for the way back: of each block the places, and of all but the last
   what goes out, as images [LANES samples][H][W][C]. */
template <class... Rest> struct Chain;

template <class B, class... Rest> struct Chain<B, Rest...> {
    static constexpr bool LAST = sizeof...(Rest) == 0;
    static constexpr int PLACES = B::SIZE + Chain<Rest...>::PLACES;
    static constexpr int IMAGES = (LAST ? 0 : LANES * B::SIZE) + Chain<Rest...>::IMAGES;
    B block;
    Chain<Rest...> rest;
    v out[B::SIZE], back[B::INPUT];

    void begin(const float *const *parameters) {
        block.begin(parameters[0], parameters[1]);
        rest.begin(parameters + 2);
    }

    void forward(int here, const v *x, float *features, float *images, vi *places) {
        block.forward(x, out, places);
        if constexpr (LAST) {
            unpack<1, B::SIZE>(here, out, features); /* in the order of Flatten */
        } else {
            unpack<B::OUTPUTS, B::AREA>(here, out, images);
            rest.forward(here, out, features, images + LANES * B::SIZE, places + B::SIZE);
        }
    }

    /* The gradient with respect to what goes in; of the first block nobody asks for it. */
    v *backward(int here, const float *const *below, const float *slopes, const float *images, const vi *places,
                bool first) {
        v *dy = out;
        if constexpr (LAST) {
            pack<1, B::SIZE>(here, slopes, out);
        } else {
            const float *own[LANES];
            for (int l = 0; l < LANES; l++) own[l] = images + l * B::SIZE;
            dy = rest.backward(here, own, slopes, images + LANES * B::SIZE, places + B::SIZE, false);
        }
        block.add_gradients(here, below, places, dy);
        if (!first) block.backward(places, dy, back);
        return back;
    }

    void end(float *const *gradients) const {
        block.end(gradients[0], gradients[1]);
        rest.end(gradients + 2);
    }
};

template <> struct Chain<> {
    static constexpr int PLACES = 0, IMAGES = 0;
    void begin(const float *const *) {}
    void end(float *const *) const {}
};

template <class B, class... Rest> struct First {
    using Type = B;
};
using All = Chain<BLOCKS>;
using Entry = First<BLOCKS>::Type;
static thread_local All chain;

extern "C" {

/* Of a group: the samples, the places and the values of images that it leaves. */
int lanes() { return LANES; }
int places() { return All::PLACES; }
int images() { return All::IMAGES; }

/* From x [samples][H][W][C] to features [samples][SIZE]. */
void forward(int samples, const float *x, const float *const *parameters, float *features, int size, float *images,
             vi *places) {
    static thread_local v group[Entry::INPUT];
    chain.begin(parameters);
    for (int first = 0; first < samples; first += LANES) {
        int here = samples - first < LANES ? samples - first : LANES;
        pack<Entry::CHANNELS, Entry::INPUT / Entry::CHANNELS>(here, x + (size_t)first * Entry::INPUT, group);
        chain.forward(here, group, features + (size_t)first * size, images, places);
        images += All::IMAGES;
        places += All::PLACES;
    }
}

/* From slopes [samples][SIZE], the gradient with respect to the features: that of the parameters. images is followed by
   at least LANES values that may be read. */
void backward(int samples, const float *x, const float *const *parameters, const float *slopes, int size,
              const float *images, const vi *places, float *const *gradients) {
    static thread_local float last[Entry::INPUT + LANES]; /* nothing may be read behind x */
    memcpy(last, x + (size_t)(samples - 1) * Entry::INPUT, 4 * Entry::INPUT);
    chain.begin(parameters);
    for (int first = 0; first < samples; first += LANES) {
        int here = samples - first < LANES ? samples - first : LANES;
        const float *below[LANES];
        for (int l = 0; l < here; l++)
            below[l] = first + l == samples - 1 ? last : x + (size_t)(first + l) * Entry::INPUT;
        chain.backward(here, below, slopes + (size_t)first * size, images, places, true);
        images += All::IMAGES;
        places += All::PLACES;
    }
    chain.end(gradients);
}
}
