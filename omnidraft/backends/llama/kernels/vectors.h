// How unpacked tiles are multiplied: what differs between instruction sets, and nothing else. Everything around it is
// written in the compiler's own vectors (GCC's and Clang's vector_size), WIDTH bytes each.
//
// A line is 64 bytes: four codes of each of 16 weight rows. `step` adds, for every row, the products of its four codes
// with four activations. Where an instruction set sums pairs in 16 bits (AVX2), a `partial` holds as many lines as fit
// (`lines_in_a_partial`) before `end` widens it. All of it is exact in integers, so no set of instructions and no width
// of a pass changes an integer; floats are added in one order by tiles.h.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#define WIDTH 64
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
#if defined(__x86_64__) && WIDTH > 16
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

constexpr int LANES = WIDTH / 4, VECTORS = 64 / WIDTH;  // 32-bit lanes of a vector, vectors of a line
typedef uint8_t bytes __attribute__((vector_size(WIDTH)));
typedef uint16_t words __attribute__((vector_size(WIDTH)));
typedef int16_t shorts __attribute__((vector_size(WIDTH)));
typedef int32_t ints __attribute__((vector_size(WIDTH)));
typedef float floats __attribute__((vector_size(WIDTH)));
typedef uint16_t half_words __attribute__((vector_size(WIDTH / 2)));
typedef uint8_t quarter_bytes __attribute__((vector_size(LANES)));
typedef int8_t quarter_codes __attribute__((vector_size(LANES)));

#define UNROLL _Pragma("GCC unroll 8")
// call(n), with n known to the compiler; n <= MOST.
template <int MOST, class Call> inline void with_constant(int n, Call call) {
    if constexpr (MOST > 1) if (n < MOST) return with_constant<MOST - 1>(n, call);
    call(std::integral_constant<int, MOST>());
}

template <class V> inline V load(const void *p) { V v; memcpy(&v, p, sizeof v); return v; }
inline ints all(int32_t value) { return ints{} + value; }
inline floats all(float value) { return floats{} + value; }
inline int32_t four(const int8_t *p) { int32_t v; memcpy(&v, p, 4); return v; }
inline floats to_floats(ints v) { return __builtin_convertvector(v, floats); }
// Where there is an instruction for it: of a conversion written out compilers make one of each byte by itself.
#if WIDTH == 64
inline ints widen(const uint8_t *p) { return (ints)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)); }
inline ints widen(const int8_t *p) { return (ints)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)); }
inline ints widen(const uint16_t *p) { return (ints)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)); }
inline void narrow(ints v, int8_t *to) { _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8((__m512i)v)); }
#elif WIDTH == 32
inline ints widen(const uint8_t *p) { return (ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
inline ints widen(const int8_t *p) { return (ints)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
inline ints widen(const uint16_t *p) { return (ints)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)); }
inline void narrow(ints v, int8_t *to) {
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
    _mm_storel_epi64((__m128i *)to, _mm_packs_epi16(words, words));
}
#else
inline ints widen(const uint8_t *p) { return __builtin_convertvector(load<quarter_bytes>(p), ints); }
inline ints widen(const int8_t *p) { return __builtin_convertvector(load<quarter_codes>(p), ints); }
inline ints widen(const uint16_t *p) { return __builtin_convertvector(load<half_words>(p), ints); }
inline void narrow(ints v, int8_t *to) { const auto codes = __builtin_convertvector(v, quarter_codes); memcpy(to, &codes, LANES); }
#endif
template <class T> inline floats from_codes(const T *p) { return to_floats(widen(p)); }
inline floats from_bf16(const uint16_t *p) { return (floats)(widen(p) << 16); }

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
constexpr int ROWS = 8;  // activation rows of a tile, as many as registers hold
inline floats fma(floats a, floats b, floats c) { return (floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
inline floats from_halves(const uint16_t *p) { return (floats)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
inline bytes look_up(const int8_t *table, bytes at) {
    return (bytes)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table)), (__m512i)at);
}
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
constexpr int ROWS = 4;
inline floats fma(floats a, floats b, floats c) { return (floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
inline floats from_halves(const uint16_t *p) { return (floats)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
inline bytes look_up(const int8_t *table, bytes at) {
    return (bytes)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table)), (__m256i)at);
}
#elif defined(__ARM_FEATURE_DOTPROD)
constexpr int ROWS = 4;
inline floats fma(floats a, floats b, floats c) { return (floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
inline floats from_halves(const uint16_t *p) { return (floats)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
inline bytes look_up(const int8_t *table, bytes at) { return (bytes)vqtbl1q_s8(vld1q_s8(table), (uint8x16_t)at); }
#else
constexpr int ROWS = 4;
inline floats fma(floats a, floats b, floats c) { return a * b + c; }
inline floats from_halves(const uint16_t *p) {  // a half's exponent is 112 less than a float's: a product moves it,
    const ints h = widen(p), bits = (h & 0x7fff) << 13;  // denormals too
    const floats size = (floats)bits * all(0x1p112f);
    const ints special = (h & 0x7c00) == 0x7c00;  // infinities and no numbers
    return (floats)((special & (bits | 0x7f800000)) | (~special & (ints)size) | ((h & 0x8000) << 16));
}
inline bytes look_up(const int8_t *table, bytes at) {
    bytes found;
    for (int i = 0; i < WIDTH; i++) found[i] = (uint8_t)table[at[i]];
    return found;
}
#endif

// Of the lanes of a and then b, S by S, one half of each S.
template <int S, int HALF, int... I> inline floats halves_of(floats a, floats b, std::integer_sequence<int, I...>) {
#ifdef __clang__
    return __builtin_shufflevector(a, b, (I / (S / 2) * S + HALF * S / 2 + I % (S / 2))...);
#else
    return __builtin_shuffle(a, b, ints{(I / (S / 2) * S + HALF * S / 2 + I % (S / 2))...});
#endif
}
// to[n] = the S lanes of the n-th of N sums that lie in v one behind the other: one half added to the other until one
// lane is left, of all sums at once, in the same order for each.
template <int N, int S = LANES> inline void add_up(floats *v, float *to) {
    if constexpr (S == 1) {
        memcpy(to, v, N * sizeof *to);
    } else {
        constexpr int vectors = (N * S + LANES - 1) / LANES;
        constexpr auto lanes = std::make_integer_sequence<int, LANES>();
        UNROLL for (int i = 0; i < vectors; i += 2) {
            const floats a = v[i], b = v[std::min(i + 1, vectors - 1)];
            v[i / 2] = halves_of<S, 0>(a, b, lanes) + halves_of<S, 1>(a, b, lanes);
        }
        add_up<N, S / 2>(v, to);
    }
}

// step: codes of 0 to 255, any of them; step_signed: codes of -128 to 127, whose products are OFFSET times the
// activations too large (what a row starts from makes up for it).
#if (defined(__AVX512VNNI__) && WIDTH == 64) || (defined(__AVXVNNI__) && WIDTH == 32)
constexpr int OFFSET = 128;
typedef ints partial;
constexpr int lines_in_a_partial(int) { return 8; }
inline partial begin(ints sum) { return sum; }
inline ints end(ints, partial sum) { return sum; }
#if WIDTH == 64
inline partial step(partial sum, bytes codes, int32_t activations) {
    return (ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)codes, _mm512_set1_epi32(activations));
}
#else
inline partial step(partial sum, bytes codes, int32_t activations) {
    return (ints)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)codes, _mm256_set1_epi32(activations));
}
#endif
inline partial step_signed(partial sum, bytes codes, int32_t activations) { return step(sum, codes ^ 0x80, activations); }
#elif WIDTH == 32
constexpr int OFFSET = 0;
typedef shorts partial;
constexpr int lines_in_a_partial(int most) { return most > 63 ? 1 : most > 31 ? 2 : most > 15 ? 4 : 8; }
inline partial begin(ints) { return shorts{}; }
inline ints end(ints sum, partial pairs) { return sum + (ints)_mm256_madd_epi16((__m256i)pairs, _mm256_set1_epi16(1)); }
inline partial step(partial sum, bytes codes, int32_t activations) {
    return sum + (shorts)_mm256_maddubs_epi16((__m256i)codes, _mm256_set1_epi32(activations));
}
inline partial step_signed(partial sum, bytes codes, int32_t activations) {  // |code| times the activation, signed by it
    const __m256i signs = _mm256_sign_epi8(_mm256_set1_epi32(activations), (__m256i)codes);
    return sum + (shorts)_mm256_maddubs_epi16(_mm256_abs_epi8((__m256i)codes), signs);
}
#else
constexpr int OFFSET = 0;
typedef ints partial;
constexpr int lines_in_a_partial(int) { return 8; }
inline partial begin(ints sum) { return sum; }
inline ints end(ints, partial sum) { return sum; }
#if defined(__ARM_FEATURE_DOTPROD)
inline partial step(partial sum, bytes codes, int32_t activations) {  // no code with a step of its own is above 127
    return (ints)vdotq_s32((int32x4_t)sum, (int8x16_t)codes, vreinterpretq_s8_s32(vdupq_n_s32(activations)));
}
#else
inline partial step(partial sum, bytes codes, int32_t activations) {
    int8_t a[4];
    memcpy(a, &activations, 4);
    for (int i = 0; i < LANES; i++)
        for (int k = 0; k < 4; k++) sum[i] += (int8_t)codes[4 * i + k] * a[k];
    return sum;
}
#endif
inline partial step_signed(partial sum, bytes codes, int32_t activations) { return step(sum, codes, activations); }
#endif
