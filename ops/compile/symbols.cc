// A product is a number and a sorted list of symbols (Product, Quotient). Sums get a symbol of
// their terms: two sums with the same terms get the same symbol, wherever each is computed.
//
// 1. AddTerms writes an extent as terms; a symbol that stands for a sum counts as its terms.
// 2. OfTerms gives terms a symbol: the one of the sum that they are a multiple of (sums_), or a new
//    one. It counts as an extent, which is never negative, if no term can be negative.
// 3. Floor does the same for sums that are divided and rounded down (floors_); Unnest makes one
//    division of a division of a rounded quotient, so that two poolings by 2 are one by 4.
// 4. AtMost looks at the terms of the difference: it holds where none of them can be negative.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

#include "ops/compile/extents.h"

namespace beamwright::ops {

std::optional<Extent> Product(const Extent& a, const Extent& b) {
  Extent product;
  if (__builtin_mul_overflow(a.number, b.number, &product.number)) {
    return std::nullopt;
  }
  if (product.number != 0) {
    product.symbols = a.symbols;
    product.symbols.insert(product.symbols.end(), b.symbols.begin(), b.symbols.end());
    std::sort(product.symbols.begin(), product.symbols.end());
  }
  return product;
}

std::optional<Extent> Product(absl::Span<const Extent> extents) {
  std::optional<Extent> product = Extent{};
  for (const Extent& extent : extents) {
    product = product.has_value() ? Product(*product, extent) : product;
  }
  return product;
}

std::optional<Extent> Quotient(const Extent& a, const Extent& b) {
  if (b.number <= 0 || a.number % b.number != 0) {
    return std::nullopt;
  }
  Extent quotient{a.number / b.number, a.symbols};
  for (const int symbol : b.symbols) {
    const auto at = std::find(quotient.symbols.begin(), quotient.symbols.end(), symbol);
    if (at == quotient.symbols.end()) {
      return std::nullopt;
    }
    quotient.symbols.erase(at);
  }
  return quotient;
}

// A sum is a map from products of symbols to how often each is taken. A symbol that stands for a
// sum is replaced by its terms, so that (L + 1) + 1 and L + 2 are one symbol.
bool Symbols::AddTerms(const Extent& extent, int64_t sign, Terms& terms) const {
  const auto sum = extent.symbols.size() == 1 ? terms_.find(extent.symbols[0]) : terms_.end();
  const Terms single = {{extent.symbols, 1}};
  for (const auto& [symbols, count] : sum == terms_.end() ? single : sum->second) {
    int64_t scaled = 0;
    int64_t& total = terms[symbols];
    if (__builtin_mul_overflow(count, extent.number, &scaled) ||
        __builtin_mul_overflow(scaled, sign, &scaled) ||
        __builtin_add_overflow(total, scaled, &total)) {
      return false;
    }
  }
  return true;
}

std::optional<Extent> Symbols::Combine(const Extent& a, const Extent& b, int64_t sign) {
  Terms terms;
  return AddTerms(a, 1, terms) && AddTerms(b, sign, terms)
             ? std::optional(OfTerms(std::move(terms)))
             : std::nullopt;
}

Extent Symbols::OfTerms(Terms terms) {
  int64_t divisor = 0;
  for (auto at = terms.begin(); at != terms.end();) {
    divisor = std::gcd(divisor, at->second);
    at = at->second == 0 ? terms.erase(at) : std::next(at);
  }
  if (terms.size() < 2) {
    return terms.empty() ? Extent{0, {}} : Extent{terms.begin()->second, terms.begin()->first};
  }
  // Multiples of one sum are multiples of one symbol.
  divisor *= terms.begin()->second < 0 ? -1 : 1;
  bool is_extent = true;
  for (auto& [symbols, count] : terms) {
    count /= divisor;
    is_extent = is_extent && Extent{count, symbols}.is_extent();
  }
  const auto [sum, is_new] = sums_.try_emplace(terms, 0);
  if (is_new) {
    sum->second = (is_extent ? New() : NewInteger()).symbols[0];
    terms_[sum->second] = std::move(terms);
  }
  return Extent{divisor, {sum->second}};
}

bool Symbols::Unnest(Terms& terms, int64_t& divisor) const {
  const auto number = terms.find({});
  const int64_t added = number == terms.end() ? 0 : number->second;
  if (terms.size() != (number == terms.end() ? 1 : 2)) {
    return true;
  }
  const auto& [symbols, count] = *terms.rbegin();  // no symbols come first
  const auto inner = symbols.size() == 1 ? rounded_.find(symbols[0]) : rounded_.end();
  if (count != 1 || inner == rounded_.end()) {
    return true;
  }
  Terms unnested = inner->second.first;
  const int64_t factor = inner->second.second;
  int64_t scaled = 0;
  int64_t& total = unnested[{}];
  if (__builtin_mul_overflow(added, factor, &scaled) ||
      __builtin_add_overflow(total, scaled, &total) ||
      __builtin_mul_overflow(divisor, factor, &divisor)) {
    return false;
  }
  terms = std::move(unnested);
  return true;
}

std::optional<Extent> Symbols::Floor(const Extent& a, int64_t divisor) {
  Terms terms;
  if (!AddTerms(a, 1, terms) || !Unnest(terms, divisor)) {
    return std::nullopt;
  }
  // Whole multiples leave it; the rest is what is rounded.
  Terms quotient;
  Terms rest;
  bool is_extent = true;
  for (const auto& [symbols, count] : terms) {
    const int64_t left = (count % divisor + divisor) % divisor;
    quotient[symbols] = (count - left) / divisor;
    if (left != 0) {
      rest[symbols] = left;
      is_extent = is_extent && Extent{left, symbols}.is_extent();
    }
  }
  if (rest.empty() || (rest.size() == 1 && rest.begin()->first.empty())) {
    return OfTerms(std::move(quotient));
  }
  const auto [floor, is_new] = floors_.try_emplace({rest, divisor}, 0);
  if (is_new) {
    floor->second = (is_extent ? New() : NewInteger()).symbols[0];
    rounded_[floor->second] = {std::move(rest), divisor};
  }
  quotient[{floor->second}] += 1;
  return OfTerms(std::move(quotient));
}

bool Symbols::AtMost(const Extent& a, const Extent& b) {
  Terms terms;
  return AddTerms(b, 1, terms) && AddTerms(a, -1, terms) &&
         std::all_of(terms.begin(), terms.end(), [](const auto& term) {
           return term.second == 0 || Extent{term.second, term.first}.is_extent();
         });
}

std::vector<int> Symbols::Parts(int symbol) const {
  std::vector<int> parts;
  std::vector<int> left = {symbol};
  std::set<int> seen = {symbol};
  while (!left.empty()) {
    const int next = left.back();
    left.pop_back();
    const auto sum = terms_.find(next);
    const auto rounded = rounded_.find(next);
    if (sum == terms_.end() && rounded == rounded_.end()) {
      parts.push_back(next);
      continue;
    }
    for (const auto& [symbols, count] : sum != terms_.end() ? sum->second : rounded->second.first) {
      for (const int part : symbols) {
        if (seen.insert(part).second) {
          left.push_back(part);
        }
      }
    }
  }
  return parts;
}

Extent AlignedAt(const std::vector<Extent>& extents, size_t rank, size_t place) {
  const size_t front = rank - extents.size();
  return place < front ? Extent{} : extents[place - front];
}

}  // namespace beamwright::ops
