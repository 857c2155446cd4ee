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

#define PH ((H - K + 1) / 2)
#define PW ((W - K + 1) / 2)

/* The largest of a few divisors, so that sums of a group fit the registers. */
constexpr int group(int n, int a, int b, int c) { return n % a == 0 ? a : n % b == 0 ? b : n % c == 0 ? c : 1; }
constexpr int OB = group(O, 6, 4, 2), DB = group(O, 3, 4, 2), CB = group(C, 3, 4, 2);

extern "C" {

int lanes() { return LANES; }

/* [samples][height * width][channels] to lanes; lanes without a sample are 0. */
void pack(int samples, int channels, int area, const float *from, float *to) {
    int size = channels * area;
    for (int first = 0; first < samples; first += LANES, to += size * LANES)
        for (int l = 0; l < LANES; l++) {
            const float *sample = from + (size_t)(first + l) * size;
            if (first + l < samples)
                for (int a = 0; a < area; a++)
                    for (int c = 0; c < channels; c++) to[(c * area + a) * LANES + l] = sample[a * channels + c];
            else
                for (int i = 0; i < size; i++) to[i * LANES + l] = 0;
        }
}

/* Lanes to [samples][size]. */
void unpack(int samples, int size, const float *from, float *to) {
    for (int n = 0; n < samples; n++)
        for (int i = 0; i < size; i++) to[(size_t)n * size + i] = from[((size_t)(n / LANES) * size + i) * LANES + n % LANES];
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

/* From dy[O][PH][PW], the gradient with respect to y: dweight, dbias and, unless it is null, dx[C][H][W]. */
void backward(int batches, const v *x, const float *weight, const vi *place, const v *dy, float *dweight, float *dbias,
              v *dx) {
    static thread_local v sums[C][K][O][K], rows[2][O][2 * PW], biases[O];
    static thread_local float w[K][C / CB][O][K][CB];
    memset(sums, 0, sizeof sums);
    memset(biases, 0, sizeof biases);
    if (dx) {
        memset(dx, 0, sizeof(v) * batches * C * H * W);
        for (int o = 0; o < O; o++)
            for (int c = 0; c < C; c++)
                for (int i = 0; i < K; i++)
                    for (int j = 0; j < K; j++) w[i][c / CB][o][j][c % CB] = weight[((o * C + c) * K + i) * K + j];
    }
    for (int b = 0; b < batches; b++, x += C * H * W, place += O * PH * PW, dy += O * PH * PW) {
        for (int p = 0; p < PH; p++) {
            for (int o = 0; o < O; o++) /* two rows of the convolution's gradient: each slope where its maximum was */
                for (int q = 0; q < PW; q++) {
                    v slope = dy[(o * PH + p) * PW + q];
                    vi at = place[(o * PH + p) * PW + q];
                    for (int k = 0; k < 4; k++) rows[k / 2][o][2 * q + k % 2] = at == k ? slope : v{};
                    biases[o] += at >= 0 ? slope : v{};
                }
            for (int r = 0; r < 2; r++)
                for (int i = 0; i < K; i++) {
                    for (int c = 0; c < C; c++) {
                        const v *line = x + (c * H + 2 * p + r + i) * W;
                        for (int o = 0; o < O; o += DB) {
                            v sum[DB][K];
                            memcpy(sum, sums[c][i][o], sizeof sum);
                            for (int q = 0; q < 2 * PW; q++)
#pragma GCC unroll 8
                                for (int d = 0; d < DB; d++) {
                                    v slope = rows[r][o + d][q];
#pragma GCC unroll 8
                                    for (int j = 0; j < K; j++) sum[d][j] += slope * line[q + j];
                                }
                            memcpy(sums[c][i][o], sum, sizeof sum);
                        }
                    }
                    for (int c = 0; dx && c < C; c += CB)
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
        }
        if (dx) dx += C * H * W;
    }
    for (int o = 0; o < O; o++) {
        dbias[o] = total(biases[o]);
        for (int c = 0; c < C; c++)
            for (int i = 0; i < K; i++)
                for (int j = 0; j < K; j++) dweight[((o * C + c) * K + i) * K + j] = total(sums[c][i][o][j]);
    }
}
}
