/* Jitter, gray and flip of colour images in one pass, and what standardizes them: see augment.py.

   Images are [H][W][3] in 0..1. A sample's colours become clip(matrix * colour + level), then all three luma where it is
   gray, then (value - shift) / scale; its rows are turned round where it is flipped. H and W are constants of the
   compilation. */
#include <stdint.h>

static const float LUMA[3] = {0.299f, 0.587f, 0.114f};

static float mean_luma(const float *image) {
    float sum[48] = {};
    int i = 0;
    for (; i + 48 <= 3 * H * W; i += 48)
        for (int k = 0; k < 48; k++) sum[k] += image[i + k];
    for (int k = 0; i < 3 * H * W; i++, k++) sum[k] += image[i];
    float total = 0;
    for (int k = 0; k < 48; k++) total += sum[k] * LUMA[k % 3];
    return total / (H * W);
}

extern "C" void augment(int samples, const float *images, const int64_t *rows, const float *matrices,
                        const float *levels, const uint8_t *gray, const uint8_t *flip, const float *shift,
                        const float *scale, float *to) {
    for (int n = 0; n < samples; n++, matrices += 9, to += 3 * H * W) {
        const float *image = images + rows[n] * 3 * H * W, *m = matrices;
        float level = levels[n] == 0 ? 0 : levels[n] * mean_luma(image);
        for (int h = 0; h < H; h++) {
            const float *row = image + 3 * h * W;
            float line[3][W];
            for (int x = 0; x < W; x++)
                for (int c = 0; c < 3; c++) {
                    float value = m[3 * c] * row[3 * x] + m[3 * c + 1] * row[3 * x + 1] + m[3 * c + 2] * row[3 * x + 2] + level;
                    line[c][x] = value < 0 ? 0 : value > 1 ? 1 : value;
                }
            if (gray[n])
                for (int x = 0; x < W; x++)
                    line[0][x] = line[1][x] = line[2][x] =
                        LUMA[0] * line[0][x] + LUMA[1] * line[1][x] + LUMA[2] * line[2][x];
            for (int c = 0; c < 3; c++)
                for (int x = 0; x < W; x++) line[c][x] = (line[c][x] - shift[c]) / scale[c];
            float *out = to + 3 * h * W;
            if (flip[n])
                for (int x = 0; x < W; x++)
                    for (int c = 0; c < 3; c++) out[3 * x + c] = line[c][W - 1 - x];
            else
                for (int x = 0; x < W; x++)
                    for (int c = 0; c < 3; c++) out[3 * x + c] = line[c][x];
        }
    }
}
