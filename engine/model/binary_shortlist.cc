// Layout, little-endian: u64 magic; u64 checksum of all that follows; u64 first (ids that are
// always open), best (targets a source id has at most), number of offsets, number of targets; the
// offsets as u64; the targets as u32.
#include "engine/model/binary_shortlist.h"

#include <algorithm>
#include <cstring>

#include "absl/types/span.h"
#include "ops/base/status.h"

namespace beamwright::engine {
namespace {

constexpr uint64_t kMagic = 0xF11A48D5013417F5;
constexpr size_t kWord = sizeof(uint64_t);
static_assert(sizeof(size_t) == kWord);
constexpr size_t kHeadWords = 6;

uint64_t WordAt(absl::string_view content, size_t offset) {
  uint64_t word = 0;
  std::memcpy(&word, content.data() + offset, kWord);
  return word;
}

// As Marian computes it, over whole words.
uint64_t ChecksumOf(absl::string_view content) {
  uint64_t sum = 0;
  for (size_t at = 0; at + kWord <= content.size(); at += kWord) {
    sum ^= WordAt(content, at) + 0x9e3779b9 + (sum << 6) + (sum >> 2);
  }
  return sum;
}

absl::Status CheckList(size_t source, absl::Span<const int32_t> targets, int target_size) {
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0 || targets[i] >= target_size) {
      return Invalid("source id ", source, ": target id ", static_cast<uint32_t>(targets[i]),
                     " is outside [0, ", target_size, "); is the shortlist of another direction?");
    }
    if (i > 0 && targets[i] <= targets[i - 1]) {
      return Invalid("source id ", source, ": target ids do not ascend at ", targets[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool IsBinaryShortlist(absl::string_view content) {
  return content.size() >= kWord && WordAt(content, 0) == kMagic;
}

absl::StatusOr<BinaryShortlist> ParseBinaryShortlist(absl::string_view content, int source_size,
                                                     int target_size) {
  if (content.size() < kHeadWords * kWord) {
    return Invalid("is cut short: it has ", content.size(), " bytes");
  }
  const uint64_t num_offsets = WordAt(content, 4 * kWord);
  const uint64_t num_targets = WordAt(content, 5 * kWord);
  if (num_offsets != static_cast<uint64_t>(source_size) + 1) {
    return Invalid("has lists for ", num_offsets - 1, " source ids, but the source vocabulary has ",
                   source_size, "; is the shortlist of another model or direction?");
  }
  const uint64_t left = content.size() - kHeadWords * kWord;
  if (num_offsets > left / kWord || num_targets > (left - num_offsets * kWord) / sizeof(uint32_t)) {
    return Invalid("is cut short: it claims ", num_offsets, " offsets and ", num_targets,
                   " target ids in ", content.size(), " bytes");
  }
  if (ChecksumOf(content.substr(2 * kWord)) != WordAt(content, kWord)) {
    return Invalid("its checksum does not fit its content; the file is damaged");
  }
  BinaryShortlist shortlist;
  shortlist.num_frequent = static_cast<int>(
      std::min<uint64_t>(WordAt(content, 2 * kWord), static_cast<uint64_t>(target_size)));
  shortlist.starts.resize(num_offsets);
  std::memcpy(shortlist.starts.data(), content.data() + kHeadWords * kWord, num_offsets * kWord);
  shortlist.targets.resize(num_targets);
  std::memcpy(shortlist.targets.data(), content.data() + (kHeadWords + num_offsets) * kWord,
              num_targets * sizeof(uint32_t));
  if (shortlist.starts.front() != 0 || shortlist.starts.back() != num_targets) {
    return Invalid("its offsets do not begin at 0 or do not end at ", num_targets);
  }
  const absl::Span<const int32_t> targets = shortlist.targets;
  for (size_t i = 0; i + 1 < shortlist.starts.size(); ++i) {
    const size_t begin = shortlist.starts[i];
    const size_t end = shortlist.starts[i + 1];
    if (end < begin || end > num_targets) {
      return Invalid("source id ", i, ": offset ", end, " does not follow ", begin);
    }
    BW_RETURN_IF_ERROR(CheckList(i, targets.subspan(begin, end - begin), target_size));
  }
  return shortlist;
}

}  // namespace beamwright::engine
