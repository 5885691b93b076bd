// Writes and reads the states of a recurrent language model as bytes (WriteState, ReadState),
// signed, so that a server takes back only states that it, or one with the same key, gave.
//
// ReadState checks in this order, so that no field is read before its origin is known:
//
// 1. The length and the magic at the front.
// 2. The signature at the end, over all bytes before it, in constant time (CRYPTO_memcmp).
// 3. The model's fingerprint and the numerics class: a state continues with the same bits only
//    there.
// 4. Each state's type and extents, against those of the state that a request without one begins
//    with (TakeState), and that no byte is left over.
#include "engine/request/saved_state.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>

#include "engine/status/fault.h"
#include "ops/base/check.h"
#include "ops/base/status.h"

// The bytes: kMagic, the model's fingerprint, the numerics class behind its size, next_token,
// num_read, the number of states, and for each its type, rank, extents and elements; at the end
// HMAC-SHA256 of all that. Numbers are little-endian.

namespace beamwright::engine {
namespace {

constexpr absl::string_view kMagic("bwstate1", 8);
constexpr char kField[] = "source.state";
constexpr size_t kSignatureBytes = 32;

std::string Sign(absl::string_view key, absl::string_view bytes) {
  std::string signature(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  BW_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                reinterpret_cast<unsigned char*>(signature.data()), &size) != nullptr);
  signature.resize(size);
  return signature;
}

template <typename Number>
void Append(Number number, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// Takes fields off the front; false where there are too few bytes.
class Fields {
 public:
  explicit Fields(absl::string_view bytes) : left_(bytes) {}

  template <typename Number>
  bool Take(Number& number) {
    absl::string_view bytes;
    if (!Take(sizeof(number), bytes)) {
      return false;
    }
    std::memcpy(&number, bytes.data(), sizeof(number));
    return true;
  }
  bool Take(size_t size, absl::string_view& bytes) {
    if (size > left_.size()) {
      return false;
    }
    bytes = left_.substr(0, size);
    left_.remove_prefix(size);
    return true;
  }
  bool at_end() const { return left_.empty(); }

 private:
  absl::string_view left_;
};

// `expected`: the state that a request without any begins with.
bool TakeState(const ops::Tensor& expected, Fields& fields, ops::Tensor& state) {
  uint8_t dtype = 0;
  uint8_t rank = 0;
  if (!fields.Take(dtype) || !fields.Take(rank) ||
      dtype != static_cast<uint8_t>(expected.dtype()) || rank != expected.rank()) {
    return false;
  }
  for (int axis = 0; axis < expected.rank(); ++axis) {
    int64_t extent = 0;
    if (!fields.Take(extent) || extent != expected.dim(axis)) {
      return false;
    }
  }
  absl::string_view elements;
  if (!fields.Take(static_cast<size_t>(expected.num_bytes()), elements)) {
    return false;
  }
  state = ops::Tensor(expected.dtype(), expected.shape());
  std::memcpy(state.mutable_bytes(), elements.data(), elements.size());
  return true;
}

}  // namespace

int64_t SavedState::num_bytes() const {
  int64_t bytes = 0;
  for (const ops::Tensor& state : states) {
    bytes += state.num_bytes();
  }
  return bytes;
}

std::vector<ops::Tensor> CopyStates(const std::vector<ops::Tensor>& states) {
  std::vector<ops::Tensor> copies;
  for (const ops::Tensor& state : states) {
    ops::Tensor& copy = copies.emplace_back(state.dtype(), state.shape());
    std::memcpy(copy.mutable_bytes(), state.bytes(), static_cast<size_t>(state.num_bytes()));
  }
  return copies;
}

absl::Status CheckPortable(const DecodeModel& model, absl::string_view field) {
  return model.parts().has_portable_states
             ? absl::OkStatus()
             : status::InvalidField(
                   std::string(field),
                   "the model has an encoder, or states that grow or that requests "
                   "bring; only recurrent language models give and take states");
}

std::string WriteState(const DecodeModel& model, absl::string_view key, const SavedState& state) {
  std::string bytes(kMagic);
  bytes.reserve(static_cast<size_t>(state.num_bytes()) + 1024);
  bytes += model.parts().fingerprint;
  Append(static_cast<uint32_t>(model.numerics().size()), bytes);
  bytes += model.numerics();
  Append(state.next_token, bytes);
  Append(state.num_read, bytes);
  Append(static_cast<uint32_t>(state.states.size()), bytes);
  for (const ops::Tensor& one : state.states) {
    Append(static_cast<uint8_t>(one.dtype()), bytes);
    Append(static_cast<uint8_t>(one.rank()), bytes);
    for (const int64_t extent : one.shape()) {
      Append(extent, bytes);
    }
    bytes.append(reinterpret_cast<const char*>(one.bytes()), static_cast<size_t>(one.num_bytes()));
  }
  return bytes + Sign(key, bytes);
}

absl::StatusOr<SavedState> ReadState(const DecodeModel& model, absl::string_view key,
                                     absl::string_view bytes) {
  BW_RETURN_IF_ERROR(CheckPortable(model, kField));
  if (bytes.substr(0, kMagic.size()) != kMagic || bytes.size() < kMagic.size() + kSignatureBytes) {
    return status::InvalidField(kField, "is no state that an answer brought: ", bytes.size(),
                                " bytes");
  }
  const absl::string_view content = bytes.substr(0, bytes.size() - kSignatureBytes);
  const std::string signature = Sign(key, content);
  if (CRYPTO_memcmp(signature.data(), bytes.data() + content.size(), kSignatureBytes) != 0) {
    return status::InvalidField(kField,
                                "its signature is wrong: it was changed, or made by a server with "
                                "another key (state-key-file), or before this one was started");
  }
  Fields fields(content.substr(kMagic.size()));
  const std::string& fingerprint = model.parts().fingerprint;
  absl::string_view text;
  if (!fields.Take(fingerprint.size(), text) || text != fingerprint) {
    return status::InvalidField(kField, "is of another model, or of another version of '",
                                model.name(), "' than ", model.version());
  }
  uint32_t count = 0;
  if (!fields.Take(count) || !fields.Take(count, text) || text != model.numerics()) {
    return status::InvalidField(kField, "is of the numerics class '", text, "'; the model has '",
                                model.numerics(), "'");
  }
  SavedState state;
  state.signature = signature;
  bool fits = fields.Take(state.next_token) && fields.Take(state.num_read) && fields.Take(count);
  const ops::SteppedDecoder& decoder = model.parts().decoder();
  std::vector<ops::Tensor> inputs;
  for (const DecoderInput& input : model.parts().decoder().inputs) {
    inputs.push_back(input.constant_tensor);
  }
  StartValues start;
  BW_RETURN_IF_ERROR(Prepare(decoder, ops::ExecutionContext(), inputs, start));
  fits = fits && count == start.states.size();
  for (size_t i = 0; fits && i < start.states.size(); ++i) {
    fits = TakeState(start.states[i], fields, state.states.emplace_back());
  }
  if (!fits || !fields.at_end()) {
    return status::InvalidField(kField, "has other states than the model");
  }
  return state;
}

std::string DrawStateKey() {
  std::string key(kSignatureBytes, '\0');
  BW_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), static_cast<int>(key.size())) ==
           1);
  return key;
}

namespace {

// Of the containers' nodes, for each entry.
constexpr int64_t kEntryBytes = 512;

size_t SharedTokens(const PrefixCache::Tokens& a, const PrefixCache::Tokens& b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(end.first - a.begin());
}

}  // namespace

// The prefixes of an origin are sorted, so that what shares most tokens with `tokens` is next to
// its place. Example: kept are [5], [5, 7] and [5, 9, 2]. For [5, 7, 8] the first look, before [5,
// 9, 2], finds [5, 7] whole. For [5, 9, 4] it meets [5, 9, 2], which is no beginning but shares two
// tokens, then [5, 7], which shares one, and finds [5].
PrefixCache::Found PrefixCache::Find(const std::string& origin, const Tokens& tokens) {
  Found found;
  absl::MutexLock lock(&mutex_);
  num_tokens_ += static_cast<int64_t>(tokens.size()) - 1;
  const auto prefixes = origins_.find(origin);
  if (prefixes == origins_.end()) {
    return found;
  }
  Prefixes& own = prefixes->second;
  size_t shared = 0;  // with any other prefix
  if (const auto next = own.lower_bound(tokens); next != own.end()) {
    shared = SharedTokens(tokens, next->first);
  }
  // Beginnings of `tokens` are in front of it, and longer ones behind shorter ones. What lies
  // between shares fewer tokens with each look.
  Tokens beginning = tokens;
  auto at = own.upper_bound(beginning);
  size_t num_read = 0;
  while (at != own.begin()) {
    --at;
    const size_t with = SharedTokens(beginning, at->first);
    shared = std::max(shared, with);
    if (with == at->first.size()) {
      uses_.splice(uses_.begin(), uses_, at->second.use);
      found.entry = at->second.entry;
      num_read = with - 1;
      num_found_ += static_cast<int64_t>(num_read);
      break;
    }
    beginning.resize(with);
    at = own.upper_bound(beginning);
  }
  if (shared < tokens.size() && shared > num_read + kLeastTokens) {
    found.branch = shared - 1;
  }
  return found;
}

void PrefixCache::Add(const std::string& origin, Tokens tokens,
                      std::shared_ptr<const Entry> entry) {
  auto bytes = kEntryBytes + static_cast<int64_t>(origin.size() + tokens.size() * sizeof(int32_t) +
                                                  entry->log_probs.size() * sizeof(float));
  for (const ops::Tensor& state : entry->states) {
    bytes += state.num_bytes();
  }
  absl::MutexLock lock(&mutex_);
  if (bytes > max_bytes_) {
    return;
  }
  if (const auto own = origins_.find(origin);
      own != origins_.end() && own->second.count(tokens) > 0) {
    return;  // another request read the same
  }
  while (bytes_ + bytes > max_bytes_) {
    DropOldest();
  }
  const auto [kept, is_new] = origins_[origin].emplace(std::move(tokens), Kept());
  uses_.emplace_front(origin, &kept->first);
  kept->second = {std::move(entry), bytes, uses_.begin()};
  bytes_ += bytes;
}

void PrefixCache::DropOldest() {
  const auto [origin, tokens] = uses_.back();
  const auto prefixes = origins_.find(origin);
  const auto kept = prefixes->second.find(*tokens);
  bytes_ -= kept->second.bytes;
  uses_.pop_back();
  prefixes->second.erase(kept);
  if (prefixes->second.empty()) {
    origins_.erase(prefixes);
  }
}

int64_t PrefixCache::num_bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

int64_t PrefixCache::num_tokens() const {
  absl::MutexLock lock(&mutex_);
  return num_tokens_;
}

int64_t PrefixCache::num_found() const {
  absl::MutexLock lock(&mutex_);
  return num_found_;
}

}  // namespace beamwright::engine
