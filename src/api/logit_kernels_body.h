// The loops of logit_kernels.h, compiled once for each set of instructions: no header is included here whose inline
// functions other files share.
#pragma once

#include <cstdint>

#include "api/logit_kernels.h"

namespace fsdp {

namespace {

constexpr int64_t kLanes = 8;
using Lanes = float __attribute__((vector_size(32)));
using LaneBits = uint32_t __attribute__((vector_size(32)));
using HalfLanes = uint16_t __attribute__((vector_size(16)));

inline Lanes all(float value) { return Lanes{} + value; }
inline Lanes as_floats(LaneBits bits) { return reinterpret_cast<Lanes>(bits); }
inline LaneBits as_bits(Lanes lanes) { return reinterpret_cast<LaneBits>(lanes); }
inline Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }  // b where a is NaN

inline Lanes load(const float* from) {
  Lanes lanes;
  __builtin_memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

inline Lanes load(const uint16_t* from) {
  HalfLanes bits;
  __builtin_memcpy(&bits, from, sizeof bits);
  return as_floats(__builtin_convertvector(bits, LaneBits) << 16);
}

inline void store(float* to, Lanes lanes) { __builtin_memcpy(to, &lanes, sizeof lanes); }

// To the nearest, and to even of two that are as near.
inline void store(uint16_t* to, Lanes lanes) {
  const LaneBits bits = as_bits(lanes), rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const auto not_a_number = reinterpret_cast<LaneBits>(lanes != lanes);
  const LaneBits found = (rounded & ~not_a_number) | (not_a_number & 0x7fc0);
  const HalfLanes halves = __builtin_convertvector(found, HalfLanes);
  __builtin_memcpy(to, &halves, sizeof halves);
}

// Less than eight elements; `rest` in the other lanes.
template <typename Element>
Lanes load_some(const Element* from, int64_t count, Element rest) {
  Element padded[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) padded[i] = i < count ? from[i] : rest;
  return load(padded);
}

template <typename Element>
void store_some(Element* to, int64_t count, Lanes lanes) {
  Element padded[kLanes];
  store(padded, lanes);
  for (int64_t i = 0; i < count; ++i) to[i] = padded[i];
}

constexpr float kLowestFloat = -__builtin_inff();
constexpr uint16_t kLowestBFloat16 = 0xff80;  // the bits of minus infinity
inline float lowest(const float*) { return kLowestFloat; }
inline uint16_t lowest(const uint16_t*) { return kLowestBFloat16; }

// exp(x) of x <= 0, to two units in the last place: 2^n exp(r) with |r| <= ln(2) / 2, of which a Taylor polynomial of
// degree 7 leaves 5e-9. 0 where the result would have less than full precision; NaN of NaN.
inline Lanes exp_of(Lanes x) {
  constexpr float kSmallest = -87.33F, kLog2OfE = 1.44269504F;
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;  // n * kLn2High is exact
  constexpr float kNearestInteger = 12582912;                          // 1.5 * 2^23: sums with it have no fraction
  constexpr float kTaylor[] = {1.F / 720, 1.F / 120, 1.F / 24, 1.F / 6, 1.F / 2, 1, 1};
  const Lanes shifted = x * kLog2OfE + kNearestInteger, n = shifted - kNearestInteger;
  const Lanes r = (x - n * kLn2High) - n * kLn2Low;
  Lanes sum = all(1.F / 5040);
  for (const float coefficient : kTaylor) sum = sum * r + coefficient;
  const Lanes power = as_floats((as_bits(shifted) << 23) + 0x3f800000);  // n in the lowest bits becomes the exponent
  const auto vanishes = reinterpret_cast<LaneBits>(x < kSmallest);
  return as_floats(as_bits(sum * power) & ~vanishes);
}

inline float exp_of(float x) { return exp_of(all(x))[0]; }

inline float sum_of(Lanes lanes) {
  float sum = lanes[0];
  for (int64_t i = 1; i < kLanes; ++i) sum += lanes[i];
  return sum;
}

template <typename Element>
float largest_of(const Element* logits, int64_t count, float so_far) {
  Lanes lanes = all(so_far);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) lanes = larger(load(logits + i), lanes);
  lanes = larger(load_some(logits + i, count - i, lowest(logits)), lanes);
  float largest = so_far;
  for (int64_t lane = 0; lane < kLanes; ++lane) largest = lanes[lane] > largest ? lanes[lane] : largest;
  return largest;
}

template <typename Element>
void add(const Element* logits, int64_t count, bool with_total, LogitRowSums& to) {
  const float largest = largest_of(logits, count, to.largest);
  const float minuend = largest == kLowestFloat ? 0 : largest;  // of nothing but minus infinities, or NaN
  Lanes sum = all(0);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) sum += exp_of(load(logits + i) - minuend);
  sum += exp_of(load_some(logits + i, count - i, lowest(logits)) - minuend);
  to.sum = to.sum * exp_of(to.largest - minuend) + sum_of(sum);
  to.largest = largest;
  if (!with_total) return;
  Lanes total = all(0);
  for (i = 0; i + kLanes <= count; i += kLanes) total += load(logits + i);
  total += load_some(logits + i, count - i, Element{0});
  to.total += sum_of(total);
}

template <typename Element>
void make_gradient(Element* logits, int64_t count, const LogitRowGradient& of) {
  const auto gradient = [&of](Lanes lanes) { return exp_of(lanes - of.largest) * of.factor + of.everywhere; };
  const bool has_target = of.target >= 0 && of.target < count;
  const Lanes at_target = has_target ? gradient(load_some(logits + of.target, 1, Element{0})) + of.at_target : all(0);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(logits + i, gradient(load(logits + i)));
  store_some(logits + i, count - i, gradient(load_some(logits + i, count - i, Element{0})));
  if (has_target) store_some(logits + of.target, 1, at_target);
}

template <typename Element>
constexpr LogitKernels<Element> kKernels{add<Element>, make_gradient<Element>};

}  // namespace

}  // namespace fsdp
