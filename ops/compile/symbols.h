// Extents as numbers and symbols, and what can be computed of them without knowing the symbols:
// products, quotients, sums, and sums divided and rounded down.
#ifndef BEAMWRIGHT_OPS_COMPILE_SYMBOLS_H_
#define BEAMWRIGHT_OPS_COMPILE_SYMBOLS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace beamwright::ops {

// number * symbol * symbol ... Symbols from 0 on are extents of tensors, negative ones integers of
// which nothing is known.
struct Extent {
  int64_t number = 1;
  std::vector<int> symbols;  // ascending, repeats allowed

  bool is_number() const { return symbols.empty(); }
  // Whether it is 0 or more in every run.
  bool is_extent() const { return number >= 0 && (symbols.empty() || symbols.front() >= 0); }
  friend bool operator==(const Extent&, const Extent&) = default;
};

// Nothing where the number would overflow.
std::optional<Extent> Product(const Extent& a, const Extent& b);
// a / b where it is known to leave no rest; nothing unless b's number is positive.
std::optional<Extent> Quotient(const Extent& a, const Extent& b);
std::optional<Extent> Product(absl::Span<const Extent> extents);
// Extent `place` of `extents` as NumPy aligns them with a shape of `rank` axes: 1 in front of them.
Extent AlignedAt(const std::vector<Extent>& extents, size_t rank, size_t place);

// Hands out symbols, and knows which of them are sums of others, or sums divided by numbers: a
// cache that gets one place more has the extent L + 1, one symbol wherever it is computed.
class Symbols {
 public:
  Extent New() { return Extent{1, {extents_++}}; }
  Extent NewInteger() { return Extent{1, {-++integers_}}; }
  int num_extents() const { return extents_; }

  // a + b and a - b; nothing where a number would overflow.
  std::optional<Extent> Sum(const Extent& a, const Extent& b) { return Combine(a, b, 1); }
  std::optional<Extent> Difference(const Extent& a, const Extent& b) { return Combine(a, b, -1); }
  // a / divisor, rounded down; divisor: above 0. floor(floor(w / 2) / 2) is floor(w / 4), one
  // symbol wherever it is computed. Nothing where a number would overflow.
  std::optional<Extent> Floor(const Extent& a, int64_t divisor);
  // Whether a is at most b in every run, as far as that shows.
  bool AtMost(const Extent& a, const Extent& b);
  // The symbols that a symbol is made of: itself unless it is a sum or rounded.
  std::vector<int> Parts(int symbol) const;

 private:
  // Sums: products of symbols (none: a number), and how often each is taken.
  using Terms = std::map<std::vector<int>, int64_t>;

  // A symbol that is another sum, divided and rounded down.
  using Rounded = std::pair<Terms, int64_t>;

  bool AddTerms(const Extent& extent, int64_t sign, Terms& terms) const;
  Extent OfTerms(Terms terms);
  // Where the terms are floor(sum / n) + c: takes sum + c * n for them, and n times the divisor.
  bool Unnest(Terms& terms, int64_t& divisor) const;
  std::optional<Extent> Combine(const Extent& a, const Extent& b, int64_t sign);

  int extents_ = 0;
  int integers_ = 0;
  std::map<Terms, int> sums_;
  std::map<int, Terms> terms_;  // by symbol, of sums
  std::map<Rounded, int> floors_;
  std::map<int, Rounded> rounded_;  // by symbol
};

}  // namespace beamwright::ops

#endif  // BEAMWRIGHT_OPS_COMPILE_SYMBOLS_H_
