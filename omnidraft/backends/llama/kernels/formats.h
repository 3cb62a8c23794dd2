// How weights lie, and how a tile of them is unpacked. A format says how wide its codes are and how ggml writes a block
// of them (`read`); the layout follows from that.
//
// Sixteen rows of a matrix are a *group*. Its columns come in chunks of 32: eight lines of 64 bytes, each with four
// codes of every row (vectors.h). Codes narrower than a byte share bytes: a plane of BITS bits takes BITS lines for the
// eight, the j-th in line j % BITS, shifted left by BITS * (j / BITS). Codes of 3, 5 and 6 bits have two planes. In
// front of the group's lines, so that those stay aligned, lie the scales of all its blocks: the float scale of each row
// (d), the least value (m) if there is one, and the whole-numbered scales of parts of the block.
//
// A weight is d * scale * (code - BIAS) + m * least; scale and least are 1 where PARTS is 0.
#pragma once
#include "vectors.h"

constexpr int GROUP = 16, CHUNK = 32;

struct block {  // of one row, unpacked: what `read` writes
    uint8_t code[256];
    int8_t scale[16];
    uint8_t least[16];
    uint16_t d, m;
};

struct format {
    static constexpr int LOW = 4, HIGH = 0;   // bits of both planes
    static constexpr int CHUNKS = 1;          // of a block
    static constexpr int PARTS = 0;           // with scales of their own, of a chunk
    static constexpr int BIAS = 0;
    static constexpr bool LEAST = false;      // whether there are least values
    static constexpr bool SIGNED = false;     // codes are signed bytes
    static constexpr bool BF16 = false;       // d is one, else a half
    static constexpr bool TABLED = false;     // codes stand for signed bytes in a TABLE of sixteen
};
struct super : format { static constexpr int CHUNKS = 8, PARTS = 1; };  // K-quants: blocks of 256

template <class F> constexpr int block_columns = CHUNK * F::CHUNKS;
template <class F> constexpr int head_bytes = (32 + 16 * F::CHUNKS * F::PARTS) * (1 + F::LEAST);
template <class F> constexpr int chunk_bytes = 64 * (F::LOW + F::HIGH);
template <class F> constexpr bool is_signed = F::SIGNED || F::TABLED;
template <class F> constexpr int bias = is_signed<F> ? OFFSET : F::BIAS;  // by which a step's codes are too large
template <class F> constexpr int most = is_signed<F> ? 255 : (1 << (F::LOW + F::HIGH)) - 1;
inline size_t aligned(size_t size) { return (size + 63) / 64 * 64; }

template <int BITS, int AT> inline bytes plane(const uint8_t *lines, int j) {
    const words stored = load<words>(lines + 64 * (j % BITS));
    const int shift = BITS * (j / BITS) - AT;
    if (BITS == 8) return (bytes)stored;
    return (bytes)(shift > 0 ? stored >> shift : stored << -shift) & (uint8_t)(((1 << BITS) - 1) << AT);
}
// A vector of the j-th line of the chunk at `lines`.
template <class F> inline bytes line(const uint8_t *lines, int j) {
    bytes codes = plane<F::LOW, 0>(lines, j);
    if constexpr (F::HIGH > 0) codes |= plane<F::HIGH, F::LOW>(lines + 64 * F::LOW, j);
    if constexpr (F::TABLED) codes = look_up(F::TABLE, codes);
    return codes;
}

template <int BITS> inline void put(uint8_t *lines, int j, int row, uint32_t codes) {  // four of them, a byte each
    uint8_t *at = lines + 64 * (j % BITS) + 4 * row;
    uint32_t stored;
    memcpy(&stored, at, 4);
    stored |= (codes & 0x01010101u * ((1 << BITS) - 1)) << (BITS * (j / BITS));
    memcpy(at, &stored, 4);
}
// Lay out one block of row `row` of a group whose bytes there were zero.
template <class F> void lay_out(const block &from, int row, uint8_t *head, uint8_t *lines) {
    memcpy(head + 2 * row, &from.d, 2);
    uint8_t *scales = head + 32 * (1 + F::LEAST);
    for (int i = 0; i < F::CHUNKS * F::PARTS; i++) {
        scales[16 * i + row] = (uint8_t)from.scale[i];
        if (F::LEAST) scales[16 * (F::CHUNKS * F::PARTS + i) + row] = from.least[i];
    }
    if (F::LEAST) memcpy(head + 32 + 2 * row, &from.m, 2);
    for (int c = 0; c < F::CHUNKS; c++, lines += chunk_bytes<F>)
        for (int j = 0; j < 8; j++) {
            uint32_t codes;
            memcpy(&codes, from.code + CHUNK * c + 4 * j, 4);
            put<F::LOW>(lines, j, row, codes);
            if constexpr (F::HIGH > 0) put<F::HIGH>(lines + 64 * F::LOW, j, row, codes >> F::LOW);
        }
}

// The formats. BYTES: of a block as ggml writes it.

inline uint16_t half_at(const uint8_t *p) { uint16_t h; memcpy(&h, p, 2); return h; }
inline void nibbles(const uint8_t *p, uint8_t *code, int half = 16) {  // low ones first, the high ones `half` behind
    for (int i = 0; i < half; i++) code[i] = p[i] & 15, code[i + half] = p[i] >> 4;
}
// Add to 32 codes, at bit `to`, the `count` bits of as many bytes that begin at bit `from`.
inline void add_bits(const uint8_t *__restrict p, int from, int count, uint8_t *__restrict code, int to) {
    for (int i = 0; i < 32; i++) code[i] |= (p[i] >> from & ((1 << count) - 1)) << to;
}
inline void fifth_bits(const uint8_t *p, uint8_t *code) {
    for (int i = 0; i < 32; i++) code[i] |= (p[i / 8] >> i % 8 & 1) << 4;
}
inline void six_bit_scales(const uint8_t *p, block &to) {  // of Q4_K and Q5_K: 8 scales and 8 least values in 12 bytes
    for (int i = 0; i < 4; i++) {
        to.scale[i] = p[i] & 63, to.least[i] = p[i + 4] & 63;
        to.scale[i + 4] = (p[i + 8] & 15) | p[i] >> 6 << 4, to.least[i + 4] = p[i + 8] >> 4 | p[i + 4] >> 6 << 4;
    }
}
inline constexpr int8_t NL_TABLE[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
inline constexpr int8_t FP4_TABLE[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr uint16_t NEGATIVE = 0x8000;

struct Q4_0 : format {
    static constexpr int BYTES = 18, BIAS = 8;
    static void read(const uint8_t *p, block &to) { to.d = half_at(p), nibbles(p + 2, to.code); }
};
struct Q4_1 : format {
    static constexpr int BYTES = 20;
    static constexpr bool LEAST = true;
    static void read(const uint8_t *p, block &to) { to.d = half_at(p), to.m = half_at(p + 2), nibbles(p + 4, to.code); }
};
struct Q5_0 : format {
    static constexpr int BYTES = 22, HIGH = 1, BIAS = 16;
    static void read(const uint8_t *p, block &to) {
        to.d = half_at(p), nibbles(p + 6, to.code), fifth_bits(p + 2, to.code);
    }
};
struct Q5_1 : format {
    static constexpr int BYTES = 24, HIGH = 1;
    static constexpr bool LEAST = true;
    static void read(const uint8_t *p, block &to) {
        to.d = half_at(p), to.m = half_at(p + 2), nibbles(p + 8, to.code), fifth_bits(p + 4, to.code);
    }
};
struct Q8_0 : format {
    static constexpr int BYTES = 34, LOW = 8;
    static constexpr bool SIGNED = true;
    static void read(const uint8_t *p, block &to) { to.d = half_at(p), memcpy(to.code, p + 2, 32); }
};
struct IQ4_NL : Q4_0 {
    static constexpr int BIAS = 0;
    static constexpr bool TABLED = true;
    static constexpr const int8_t *TABLE = NL_TABLE;
};
struct MXFP4 : format {
    static constexpr int BYTES = 17;
    static constexpr bool BF16 = true;
    static constexpr bool TABLED = true;
    static constexpr const int8_t *TABLE = FP4_TABLE;
    static void read(const uint8_t *p, block &to) {  // the table has doubled values: half of 2^(exponent - 127)
        to.d = p[0] < 2 ? 0x20 << p[0] : (p[0] - 1) << 7, nibbles(p + 1, to.code);
    }
};
struct IQ4_XS : super {
    static constexpr int BYTES = 136;
    static constexpr bool TABLED = true;
    static constexpr const int8_t *TABLE = NL_TABLE;
    static void read(const uint8_t *p, block &to) {
        to.d = half_at(p);
        for (int c = 0; c < 8; c++) {
            to.scale[c] = ((p[4 + c / 2] >> 4 * (c % 2) & 15) | (half_at(p + 2) >> 2 * c & 3) << 4) - 32;
            nibbles(p + 8 + 16 * c, to.code + 32 * c);
        }
    }
};
struct Q2_K : super {
    static constexpr int BYTES = 84, LOW = 2, PARTS = 2;
    static constexpr bool LEAST = true;
    static void read(const uint8_t *p, block &to) {
        to.d = half_at(p + 80), to.m = half_at(p + 82) ^ NEGATIVE;
        for (int i = 0; i < 16; i++) to.scale[i] = p[i] & 15, to.least[i] = p[i] >> 4;
        memset(to.code, 0, 256);
        for (int c = 0; c < 8; c++) add_bits(p + 16 + c / 4 * 32, c % 4 * 2, 2, to.code + 32 * c, 0);
    }
};
struct Q3_K : super {
    static constexpr int BYTES = 110, LOW = 2, HIGH = 1, PARTS = 2, BIAS = 4;
    static void read(const uint8_t *p, block &to) {
        to.d = half_at(p + 108);
        for (int i = 0; i < 16; i++)
            to.scale[i] = ((p[96 + i % 8] >> i / 8 * 4 & 15) | (p[104 + i % 4] >> i / 4 * 2 & 3) << 4) - 32;
        memset(to.code, 0, 256);
        for (int c = 0; c < 8; c++)
            add_bits(p + 32 + c / 4 * 32, c % 4 * 2, 2, to.code + 32 * c, 0), add_bits(p, c, 1, to.code + 32 * c, 2);
    }
};
struct Q4_K : super {
    static constexpr int BYTES = 144;
    static constexpr bool LEAST = true;
    static void read(const uint8_t *p, block &to) {
        to.d = half_at(p), to.m = half_at(p + 2) ^ NEGATIVE, six_bit_scales(p + 4, to);
        for (int i = 0; i < 4; i++) nibbles(p + 16 + 32 * i, to.code + 64 * i, 32);
    }
};
struct Q5_K : super {
    static constexpr int BYTES = 176, HIGH = 1;
    static constexpr bool LEAST = true;
    static void read(const uint8_t *p, block &to) {
        to.d = half_at(p), to.m = half_at(p + 2) ^ NEGATIVE, six_bit_scales(p + 4, to);
        for (int i = 0; i < 4; i++) nibbles(p + 48 + 32 * i, to.code + 64 * i, 32);
        for (int c = 0; c < 8; c++) add_bits(p + 16, c, 1, to.code + 32 * c, 4);
    }
};
struct Q6_K : super {
    static constexpr int BYTES = 210, HIGH = 2, PARTS = 2, BIAS = 32;
    static void read(const uint8_t *p, block &to) {
        to.d = half_at(p + 208), memcpy(to.scale, p + 192, 16);
        for (int h = 0; h < 2; h++) nibbles(p + 64 * h, to.code + 128 * h, 64);
        for (int c = 0; c < 8; c++) add_bits(p + 128 + c / 4 * 32, c % 4 * 2, 2, to.code + 32 * c, 4);
    }
};

// Floats lie column by column, sixteen of them.
struct F16 {
    static constexpr int BYTES = 2;
    static floats weights(const uint8_t *p) { return from_halves((const uint16_t *)p); }
};
struct BF16 {
    static constexpr int BYTES = 2;
    static floats weights(const uint8_t *p) { return from_bf16((const uint16_t *)p); }
};
struct F32 {
    static constexpr int BYTES = 4;
    static floats weights(const uint8_t *p) { return load<floats>(p); }
};
