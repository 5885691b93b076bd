// From the expression of a grammar to an automaton over bytes, in two parts.
//
// Compile writes a program, as a regular-expression engine does: instructions that read a byte,
// split, call a rule, return or fail. Instructions are written backwards: a part is written once
// the place where the text goes on is known.
//
// 1. ProgramWriter::Emit writes each rule; sets of characters become ranges of UTF-8 bytes
//    (EmitSet, SplitRange). A long part that is repeated often is written once and called
//    (EmitRepeat).
// 2. Calls get their targets when all rules are written. FindLive marks the instructions from which
//    a text can be completed; a grammar that no text fulfils is an error.
// 3. FindClasses puts bytes that all instructions treat alike into one class, which keeps the
//    automaton's tables small.
//
// Automaton runs the program: see below.
#include "engine/grammar/program.h"

#include <algorithm>
#include <bitset>

#include "ops/base/status.h"

namespace beamwright::grammar {
namespace {

using Kind = Instruction::Kind;

// Repeated parts with more instructions are called, so that each repetition costs one.
constexpr int kMostCopied = 4;

struct ByteRange {
  uint8_t low;
  uint8_t high;
};

uint8_t Continuation(char32_t code, int shift) {
  return static_cast<uint8_t>(0x80 | ((code >> shift) & 0x3F));
}

// The bytes of the code points in [low, high], whose UTF-8 has `length` bytes: one range for each
// byte where that is exact, else the range is split.
template <typename Take>
void SplitRange(char32_t low, char32_t high, int length, const Take& take) {
  for (int byte = 1; byte < length; ++byte) {  // from the last byte on
    const char32_t mask = (char32_t{1} << (6 * byte)) - 1;
    if ((low & ~mask) == (high & ~mask)) {
      continue;
    }
    if ((low & mask) != 0) {
      SplitRange(low, low | mask, length, take);
      SplitRange((low | mask) + 1, high, length, take);
      return;
    }
    if ((high & mask) != mask) {
      SplitRange(low, (high & ~mask) - 1, length, take);
      SplitRange(high & ~mask, high, length, take);
      return;
    }
  }
  constexpr std::array<uint8_t, 5> kLead = {0, 0, 0xC0, 0xE0, 0xF0};
  std::vector<ByteRange> bytes;
  const int shift = 6 * (length - 1);
  const uint8_t lead = kLead[static_cast<size_t>(length)];
  bytes.push_back(
      {static_cast<uint8_t>(lead | (low >> shift)), static_cast<uint8_t>(lead | (high >> shift))});
  for (int at = shift - 6; at >= 0; at -= 6) {
    bytes.push_back({Continuation(low, at), Continuation(high, at)});
  }
  take(bytes);
}

class ProgramWriter {
 public:
  explicit ProgramWriter(const Grammar& grammar) : grammar_(grammar) {}

  absl::StatusOr<Program> Run() {
    // What calls is written before what it calls: rules have their entries in a table until then.
    for (size_t rule = 0; rule < grammar_.rules.size(); ++rule) {
      entries_.push_back(Emit(*grammar_.rules[rule], Add({Kind::kReturn})));
    }
    // Bodies of repetitions, which may contain further ones.
    for (size_t i = 0; i < bodies_.size() && !is_full(); ++i) {
      const Expression* const body = bodies_[i];
      body_entries_.push_back(Emit(*body, Add({Kind::kReturn})));
    }
    if (is_full()) {
      return Invalid("it needs more than ", kMostInstructions, " instructions");
    }
    for (Instruction& one : program_.instructions) {
      if (one.kind == Kind::kCall) {
        one.other = one.other >= 0 ? entries_[static_cast<size_t>(one.other)]
                                   : body_entries_[static_cast<size_t>(-1 - one.other)];
      }
    }
    program_.start = entries_[0];
    FindLive();
    if (!program_.instructions[static_cast<size_t>(program_.start)].is_live) {
      return Invalid("no text fulfils it");
    }
    FindClasses();
    return std::move(program_);
  }

 private:
  bool is_full() const { return program_.instructions.size() >= kMostInstructions; }

  int32_t Add(Instruction instruction) {
    if (is_full()) {
      return 0;
    }
    program_.instructions.push_back(instruction);
    return static_cast<int32_t>(program_.instructions.size()) - 1;
  }

  int32_t AddSplit(int32_t next, int32_t other) {
    Instruction split{Kind::kSplit};
    split.next = next;
    split.other = other;
    return Add(split);
  }

  int32_t AddCall(int32_t target, int32_t next) {
    Instruction call{Kind::kCall};
    call.next = next;
    call.other = target;
    return Add(call);
  }

  // The entry of the part's instructions.
  int32_t Emit(const Expression& part, int32_t next) {
    switch (part.kind) {
      case Expression::Kind::kSet:
        return EmitSet(part.set, next);
      case Expression::Kind::kConcat:
        for (size_t i = part.parts.size(); i > 0 && !is_full(); --i) {
          next = Emit(*part.parts[i - 1], next);
        }
        return next;
      case Expression::Kind::kAlternate: {
        int32_t entry = -1;
        for (size_t i = part.parts.size(); i > 0 && !is_full(); --i) {
          const int32_t one = Emit(*part.parts[i - 1], next);
          entry = entry < 0 ? one : AddSplit(one, entry);
        }
        return entry < 0 ? Add({Kind::kFail}) : entry;
      }
      case Expression::Kind::kRepeat:
        return EmitRepeat(part, next);
      case Expression::Kind::kRule:
        return AddCall(part.rule, next);
    }
    return next;
  }

  int32_t EmitSet(const CodeSet& set, int32_t next) {
    // Code points by the length of their UTF-8, without surrogates.
    static constexpr std::array<CodeRange, 5> kLengths = {
        {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kMaxCode}}};
    static constexpr std::array<int, 5> kBytes = {1, 2, 3, 3, 4};
    int32_t entry = -1;
    for (const CodeRange& range : set) {
      for (size_t i = 0; i < kLengths.size() && !is_full(); ++i) {
        const char32_t low = std::max(range.low, kLengths[i].low);
        const char32_t high = std::min(range.high, kLengths[i].high);
        if (low > high) {
          continue;
        }
        SplitRange(low, high, kBytes[i], [&](const std::vector<ByteRange>& bytes) {
          int32_t one = next;
          for (size_t b = bytes.size(); b > 0; --b) {
            Instruction read{Kind::kByte, bytes[b - 1].low, bytes[b - 1].high};
            read.next = one;
            one = Add(read);
          }
          entry = entry < 0 ? one : AddSplit(one, entry);
        });
      }
    }
    return entry < 0 ? Add({Kind::kFail}) : entry;
  }

  // How many instructions a copy costs, at most kMostCopied + 1.
  static int CostOf(const Expression& part) {
    if (part.kind == Expression::Kind::kRule) {
      return 1;
    }
    return part.kind == Expression::Kind::kSet && part.set.size() <= 2 && !part.set.empty() &&
                   part.set.back().high < 0x80
               ? 3
               : kMostCopied + 1;
  }

  int32_t EmitRepeat(const Expression& part, int32_t next) {
    const Expression& one = *part.parts[0];
    const int copies = part.most == Expression::kUnbounded ? part.least + 1 : part.most;
    int32_t body = 0;
    const bool is_called = copies > 2 && CostOf(one) > kMostCopied;
    if (is_called) {
      bodies_.push_back(&one);
      body = -static_cast<int32_t>(bodies_.size());
    }
    const auto copy = [&](int32_t behind) {
      return is_called ? AddCall(body, behind) : Emit(one, behind);
    };
    if (part.most == Expression::kUnbounded) {
      const int32_t loop = AddSplit(0, next);
      const int32_t entry = copy(loop);
      if (!is_full()) {
        program_.instructions[static_cast<size_t>(loop)].next = entry;
      }
      next = loop;
    } else {
      const int32_t end = next;
      for (int i = part.least; i < part.most && !is_full(); ++i) {
        next = AddSplit(copy(next), end);
      }
    }
    for (int i = 0; i < part.least && !is_full(); ++i) {
      next = copy(next);
    }
    return next;
  }

  // Whether a text can be completed from here, by what is known of the instructions that follow. A
  // call needs both: the rule's end and what comes behind it.
  bool IsLive(int32_t at) const {
    const auto live = [this](int32_t other) {
      return program_.instructions[static_cast<size_t>(other)].is_live;
    };
    const Instruction& one = program_.instructions[static_cast<size_t>(at)];
    switch (one.kind) {
      case Kind::kByte:
        return live(one.next);
      case Kind::kSplit:
        return live(one.next) || live(one.other);
      case Kind::kCall:
        return live(one.next) && live(one.other);
      case Kind::kReturn:
        return true;
      case Kind::kFail:
        break;
    }
    return false;
  }

  // To a fixpoint: an instruction is looked at again when one that it goes to has become live.
  void FindLive() {
    std::vector<Instruction>& all = program_.instructions;
    std::vector<std::vector<int32_t>> users(all.size());
    std::vector<int32_t> wanted;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto at = static_cast<int32_t>(i);
      wanted.push_back(at);
      users[static_cast<size_t>(all[i].next)].push_back(at);
      users[static_cast<size_t>(all[i].other)].push_back(at);
    }
    while (!wanted.empty()) {
      const auto at = static_cast<size_t>(wanted.back());
      wanted.pop_back();
      if (!all[at].is_live && IsLive(static_cast<int32_t>(at))) {
        all[at].is_live = true;
        wanted.insert(wanted.end(), users[at].begin(), users[at].end());
      }
    }
  }

  // Classes begin where some instruction's range begins or has just ended.
  void FindClasses() {
    std::bitset<257> begins;
    for (const Instruction& one : program_.instructions) {
      if (one.kind == Kind::kByte) {
        begins.set(one.low);
        begins.set(size_t{one.high} + 1);
      }
    }
    int number = 0;
    for (size_t byte = 0; byte < 256; ++byte) {
      number += byte > 0 && begins.test(byte) ? 1 : 0;
      program_.byte_class[byte] = static_cast<uint8_t>(number);
    }
    program_.num_classes = number + 1;
  }

  const Grammar& grammar_;
  Program program_;
  std::vector<int32_t> entries_;           // by rule
  std::vector<const Expression*> bodies_;  // of repetitions: called as -1 - its number
  std::vector<int32_t> body_entries_;
};

}  // namespace

absl::StatusOr<Program> Compile(const Grammar& grammar) { return ProgramWriter(grammar).Run(); }

// A deterministic automaton over bytes for the program of a grammar, made as far as it is used. A
// state is a set of places; a place is an instruction that reads a byte, with a stack of the rules
// to return to.
//
// 1. Make computes the state behind a byte: all places of the state that read it go on.
// 2. Follow goes from there through splits, calls and returns to the next instructions that read a
//    byte. A call whose return would follow at once needs no frame. Stacks share their frames
//    (Push), so that equal stacks have equal numbers.
// 3. Intern gives equal sets of places one number. Work, bytes and places are bounded: where a
//    limit is met, kDead is in the place of the state, and is_full() says so.

namespace {

constexpr int64_t kPlaceBytes = 2 * sizeof(int64_t) + 8;  // twice, and its share of a table
constexpr int64_t kStateBytes = 96;
constexpr int64_t kFrameBytes = 48;

}  // namespace

Automaton::Automaton(std::shared_ptr<const Program> program, Limits limits)
    : program_(std::move(program)), limits_(limits), frames_(1) {
  Intern({}, false);  // kDead
  std::fill(next_.begin(), next_.end(), kDead);
  std::vector<Place> reached;
  bool accepts = false;
  seen_.clear();
  if (Follow({program_->start, 0}, reached, accepts)) {
    start_ = Intern(std::move(reached), accepts);
  }
}

int32_t Automaton::Make(int32_t state, uint8_t byte, size_t at) {
  std::vector<Place> reached;
  bool accepts = false;
  bool fits = true;
  seen_.clear();
  const State from = states_[static_cast<size_t>(state)];
  for (size_t i = from.begin; fits && i < from.end; ++i) {
    const Place place = places_[i];
    const Instruction& read = program_->instructions[static_cast<size_t>(place.first)];
    if (byte >= read.low && byte <= read.high) {
      fits = Follow({read.next, place.second}, reached, accepts);
    }
  }
  const int32_t next = fits ? Intern(std::move(reached), accepts) : kDead;
  next_[at] = next;
  return next;
}

bool Automaton::Follow(Place first, std::vector<Place>& reached, bool& accepts) {
  std::vector<Place> open = {first};
  while (!open.empty()) {
    const Place place = open.back();
    open.pop_back();
    const Instruction& one = program_->instructions[static_cast<size_t>(place.first)];
    if (!one.is_live || !seen_.insert(place).second) {
      continue;
    }
    if (++work_ > limits_.work || bytes_ > limits_.bytes || seen_.size() > 4 * kMostPlaces) {
      is_full_ = true;
      return false;
    }
    switch (one.kind) {
      case Instruction::Kind::kByte:
        reached.push_back(place);
        break;
      case Instruction::Kind::kSplit:
        open.push_back({one.next, place.second});
        open.push_back({one.other, place.second});
        break;
      case Instruction::Kind::kCall: {
        // What would return at once is not returned to: a rule that ends with itself needs no
        // stack.
        const Instruction& behind = program_->instructions[static_cast<size_t>(one.next)];
        if (behind.kind == Instruction::Kind::kReturn) {
          open.push_back({one.other, place.second});
        } else if (frames_[static_cast<size_t>(place.second)].depth < kMostDepth) {
          open.push_back({one.other, Push(place.second, one.next)});
        }
        break;
      }
      case Instruction::Kind::kReturn: {
        const Frame& frame = frames_[static_cast<size_t>(place.second)];
        if (place.second == 0) {
          accepts = true;
        } else {
          open.push_back({frame.back, frame.below});
        }
        break;
      }
      case Instruction::Kind::kFail:
        break;
    }
  }
  return true;
}

int32_t Automaton::Push(int32_t below, int32_t back) {
  const auto [found, is_new] =
      frame_numbers_.emplace(std::make_pair(below, back), static_cast<int32_t>(frames_.size()));
  if (is_new) {
    frames_.push_back({below, back, frames_[static_cast<size_t>(below)].depth + 1});
    bytes_ += kFrameBytes;
  }
  return found->second;
}

int32_t Automaton::Intern(std::vector<Place> reached, bool accepts) {
  if (reached.empty() && !accepts && !states_.empty()) {
    return kDead;
  }
  std::sort(reached.begin(), reached.end());
  const auto places = static_cast<int64_t>(reached.size());
  const int64_t cost =
      places * kPlaceBytes + kStateBytes + int64_t{sizeof(int32_t)} * program_->num_classes;
  std::pair<std::vector<Place>, bool> key(std::move(reached), accepts);
  if (const auto known = numbers_.find(key); known != numbers_.end()) {
    return known->second;
  }
  if (bytes_ + cost > limits_.bytes || key.first.size() > kMostPlaces) {
    is_full_ = true;
    return kDead;
  }
  bytes_ += cost;
  const auto number = static_cast<int32_t>(states_.size());
  states_.push_back({places_.size(), places_.size() + key.first.size(), accepts});
  places_.insert(places_.end(), key.first.begin(), key.first.end());
  next_.resize(next_.size() + static_cast<size_t>(program_->num_classes), -1);
  numbers_.emplace(std::move(key), number);
  return number;
}

}  // namespace beamwright::grammar
