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
#include "engine/grammar/automaton.h"

#include <algorithm>

namespace beamwright::grammar {
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
