/* Blocks of a small convolutional network: convolution (stride 1, no padding), 2x2 max pooling, ReLU.

   Samples lie side by side in the lanes of a vector, LANES of them in a batch: [channel][row][column][lane]. Every
   product then fills whole vectors however few the channels are, and sums stay in registers. Sizes are constants of
   the compilation: C, H, W (input channels, height, width), O (output channels), K (kernel side).

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

#define PH ((H - K + 1) / 2)
#define PW ((W - K + 1) / 2)

/* The largest of a few divisors, so that sums of a group fit the registers. */
constexpr int group(int n, int a, int b, int c) { return n % a == 0 ? a : n % b == 0 ? b : n % c == 0 ? c : 1; }
constexpr int OB = group(O, 6, 4, 2), CB = group(C, 3, 4, 2), PIECE = (K * C + LANES - 1) / LANES;

extern "C" {

int lanes() { return LANES; }

/* Rows to columns of LANES vectors. */
static void transpose(v m[LANES]) {
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

/* [samples][height * width][channels] to lanes; lanes without a sample are 0. Values are taken LANES at a time from
   LANES samples. */
void pack(int samples, int channels, int area, const float *from, v *to) {
    int size = channels * area;
    for (int first = 0; first < samples; first += LANES, from += size * LANES, to += size) {
        int here = samples - first < LANES ? samples - first : LANES;
        for (int i = 0; i < size; i += LANES) {
            int width = size - i < LANES ? size - i : LANES;
            v m[LANES] = {};
            for (int l = 0; l < here; l++)
                if (width == LANES)
                    m[l] = *(const unaligned *)(from + (size_t)l * size + i);
                else
                    memcpy(&m[l], from + (size_t)l * size + i, 4 * width);
            transpose(m);
            for (int k = 0; k < width; k++) to[(i + k) % channels * area + (i + k) / channels] = m[k];
        }
    }
}

/* Lanes to [samples][height * width][channels]. */
void unpack(int samples, int channels, int area, const v *from, float *to) {
    int size = channels * area;
    for (int first = 0; first < samples; first += LANES, from += size, to += size * LANES) {
        int here = samples - first < LANES ? samples - first : LANES;
        for (int i = 0; i < size; i += LANES) {
            int width = size - i < LANES ? size - i : LANES;
            v m[LANES] = {};
            for (int k = 0; k < width; k++) m[k] = from[(i + k) % channels * area + (i + k) / channels];
            transpose(m);
            for (int l = 0; l < here; l++) memcpy(to + (size_t)l * size + i, &m[l], 4 * width);
        }
    }
}

/* y[O][PH][PW] = relu(max over 2x2 of conv(x) + bias). place: which of the four was the (first) maximum, -1 where ReLU
   cuts. */
void forward(int batches, const v *x, const float *weight, const float *bias, v *y, vi *place) {
    float w[O / OB][C][K][K][OB];
    for (int o = 0; o < O; o++)
        for (int c = 0; c < C; c++)
            for (int i = 0; i < K; i++)
                for (int j = 0; j < K; j++) w[o / OB][c][i][j][o % OB] = weight[((o * C + c) * K + i) * K + j];
    for (int b = 0; b < batches; b++, x += C * H * W, y += O * PH * PW, place += O * PH * PW)
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
                                    float factor = w[g][c][i][j][o];
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

static float total(v lanes) {
    float sum = 0;
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    return sum;
}

/* What a sample's lane holds of dweight: each slope times the piece of the image that its maximum looked at. One of the
   four places of a pool has a slope, so that this is a quarter of the products of a convolution. Images are
   [H][W][C] here: a row of a piece is K * C values side by side, and what is beside it falls into lanes that nobody
   reads. */
static void add_pieces(const float *image, const float *slopes, const int *pieces, v sums[K][PIECE]) {
    v sum[K][PIECE];
    memcpy(sum, sums, sizeof sum);
    for (int n = 0; n < PH * PW; n++) {
        const float *piece = image + pieces[n * LANES];
        v slope = v{} + slopes[n * LANES];
#pragma GCC unroll 8
        for (int i = 0; i < K; i++)
#pragma GCC unroll 8
            for (int k = 0; k < PIECE; k++) sum[i][k] += slope * *(const unaligned *)(piece + i * W * C + k * LANES);
    }
    memcpy(sums, sum, sizeof sum);
}

/* From dy[O][PH][PW], the gradient with respect to y: dweight, dbias and, unless it is null, dx[C][H][W]. x is
   [samples][H][W][C] here, followed by at least LANES values that may be read. */
void backward(int samples, const float *x, const float *weight, const vi *place, const v *dy, float *dweight,
              float *dbias, v *dx) {
    static thread_local v sums[O][K][PIECE], rows[2][O][2 * PW], biases[O], slopes[PH * PW];
    static thread_local vi pieces[PH * PW];
    static thread_local float w[K][C / CB][O][K][CB];
    int batches = (samples + LANES - 1) / LANES;
    memset(sums, 0, sizeof sums);
    memset(biases, 0, sizeof biases);
    if (dx) {
        memset(dx, 0, sizeof(v) * batches * C * H * W);
        for (int o = 0; o < O; o++)
            for (int c = 0; c < C; c++)
                for (int i = 0; i < K; i++)
                    for (int j = 0; j < K; j++) w[i][c / CB][o][j][c % CB] = weight[((o * C + c) * K + i) * K + j];
    }
    for (int b = 0; b < batches; b++, place += O * PH * PW, dy += O * PH * PW) {
        int here = samples - b * LANES < LANES ? samples - b * LANES : LANES;
        for (int o = 0; o < O; o++) {
            for (int n = 0; n < PH * PW; n++) {
                vi at = place[o * PH * PW + n];
                slopes[n] = at >= 0 ? dy[o * PH * PW + n] : v{};
                biases[o] += slopes[n];
                pieces[n] = at >= 0 ? ((at >> 1) * W + (at & 1) + 2 * (n / PW * W + n % PW)) * C : vi{};
            }
            for (int l = 0; l < here; l++)
                add_pieces(x + (size_t)(b * LANES + l) * C * H * W, (const float *)slopes + l, (const int *)pieces + l,
                           sums[o]);
        }
        if (!dx) continue;
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
                                    for (int d = 0; d < CB; d++) sum[d][j] += slope * w[i][c / CB][o][j][d];
                            }
#pragma GCC unroll 8
                            for (int d = 0; d < CB; d++)
#pragma GCC unroll 8
                                for (int j = 0; j < K; j++) line[d * H * W + j] = sum[d][j];
                        }
        }
        dx += C * H * W;
    }
    for (int o = 0; o < O; o++) {
        dbias[o] = total(biases[o]);
        for (int c = 0; c < C; c++)
            for (int i = 0; i < K; i++)
                for (int j = 0; j < K; j++)
                    dweight[((o * C + c) * K + i) * K + j] = sums[o][i][(j * C + c) / LANES][(j * C + c) % LANES];
    }
}
}
