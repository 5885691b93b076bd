#include "engine/grammar/expression.h"

#include <algorithm>

#include "ops/base/utf8.h"

namespace beamwright::grammar {
namespace {

Part Make(Expression expression) {
  return std::make_shared<const Expression>(std::move(expression));
}

bool IsEmptyText(const Part& part) {
  return part->kind == Expression::Kind::kConcat && part->parts.empty();
}

// One part for each character of ASCII: patterns and texts consist of tens of thousands of them.
const std::vector<Part>& PartsOfAscii() {
  static const auto& parts = *[] {
    auto* const made = new std::vector<Part>();
    for (char32_t code = 0; code < 0x80; ++code) {
      Expression one;
      one.kind = Expression::Kind::kSet;
      one.set = {{code, code}};
      made->push_back(Make(std::move(one)));
    }
    return made;
  }();
  return parts;
}

}  // namespace

CodeSet Normalised(CodeSet set) {
  std::sort(set.begin(), set.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.low < b.low; });
  CodeSet result;
  for (const CodeRange& range : set) {
    if (!result.empty() && range.low <= result.back().high + 1) {
      result.back().high = std::max(result.back().high, range.high);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

CodeSet Complement(const CodeSet& set) {
  CodeSet result;
  char32_t next = 0;
  for (const CodeRange& range : set) {
    if (range.low > next) {
      result.push_back({next, range.low - 1});
    }
    next = range.high + 1;
  }
  if (next <= kMaxCode) {
    result.push_back({next, kMaxCode});
  }
  return result;
}

CodeSet Intersection(const CodeSet& a, const CodeSet& b) {
  CodeSet both = Complement(a);
  const CodeSet other = Complement(b);
  both.insert(both.end(), other.begin(), other.end());
  return Complement(Normalised(std::move(both)));
}

Part SetOf(CodeSet set) {
  if (set.size() == 1 && set[0].low == set[0].high && set[0].low < 0x80) {
    return PartsOfAscii()[set[0].low];
  }
  Expression made;
  made.kind = Expression::Kind::kSet;
  made.set = Normalised(std::move(set));
  return Make(std::move(made));
}

// Without empty texts: then all but the empty text itself needs instructions, and what is written
// twice at each of many levels comes to their limit.
Part Concat(std::vector<Part> parts) {
  parts.erase(std::remove_if(parts.begin(), parts.end(), IsEmptyText), parts.end());
  if (parts.size() == 1) {
    return std::move(parts[0]);
  }
  Expression made;
  made.parts = std::move(parts);
  return Make(std::move(made));
}

Part Alternate(std::vector<Part> parts) {
  if (parts.size() == 1) {
    return std::move(parts[0]);
  }
  Expression made;
  made.kind = Expression::Kind::kAlternate;
  made.parts = std::move(parts);
  return Make(std::move(made));
}

Part Repeat(Part part, int least, int most) {
  if (IsEmptyText(part) || most == 0) {
    return EmptyText();
  }
  Expression made;
  made.kind = Expression::Kind::kRepeat;
  made.parts.push_back(std::move(part));
  made.least = least;
  made.most = most;
  return Make(std::move(made));
}

Part Optional(Part part) { return Repeat(std::move(part), 0, 1); }

Part RuleRef(int rule) {
  Expression made;
  made.kind = Expression::Kind::kRule;
  made.rule = rule;
  return Make(std::move(made));
}

Part Literal(absl::string_view text) {
  std::vector<Part> parts;
  while (!text.empty()) {
    char32_t code = 0;
    const int length = std::max(1, Utf8Length(text, &code));
    parts.push_back(SetOf({{code, code}}));
    text.remove_prefix(static_cast<size_t>(length));
  }
  return Concat(std::move(parts));
}

Part EmptyText() { return Make({}); }

}  // namespace beamwright::grammar
