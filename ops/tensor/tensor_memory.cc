// How much memory tensors may take, and constants that are in memory only while they are read.
// Three limits: of one tensor (TensorLimit, for this thread), of the process (MemoryLimit, against
// the bytes that are held), and of constants of a load that are idle.
#include "ops/tensor/tensor_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <limits>
#include <map>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "ops/base/memory.h"
#include "ops/base/status.h"

namespace beamwright::ops {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

thread_local int64_t limit = kMaxTensorBytes;
std::atomic<int64_t> held_bytes = 0;
std::atomic<int64_t> memory_limit = kNoLimit;

std::string Rounded(int64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  for (; unit < 3 && bytes != 0 && bytes % 1024 == 0; ++unit) {
    bytes /= 1024;
  }
  return absl::StrCat(bytes, " ", kUnits[unit]);
}

int64_t LeftBytes() {
  const int64_t most = memory_limit.load(std::memory_order_relaxed);
  return most == kNoLimit ? kNoLimit : std::max<int64_t>(most - HeldBytes(), 0);
}

}  // namespace

int64_t HeldBytes() { return held_bytes.load(std::memory_order_relaxed); }
void CountHeld(int64_t bytes) { held_bytes.fetch_add(bytes, std::memory_order_relaxed); }

int64_t MaxTensorBytes() { return std::min(limit, LeftBytes()); }

// Which of the limits it was: the process's, if less is left of it than one tensor may take.
absl::Status TooLarge(absl::string_view what) {
  if (LeftBytes() < limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, " does not fit into memory: ", HeldBytes(), " bytes are held and ",
                     Rounded(memory_limit.load(std::memory_order_relaxed)), " are allowed"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(what, " is larger than ", Rounded(limit)));
}

MemoryLimit::MemoryLimit(int64_t bytes) { memory_limit = bytes; }

MemoryLimit::~MemoryLimit() { memory_limit = kNoLimit; }

TensorLimit::TensorLimit(int64_t bytes) : outside_(limit) { limit = std::min(limit, bytes); }

TensorLimit::~TensorLimit() { limit = outside_; }

// Constants that are loaded when they are first read, so that a large model never has its weights
// in memory twice: as the file has them and packed.
//
// 1. DeferredScope opens a session for a load on this thread. MakeConstant then reserves addresses
//    for a large constant (mmap without access) and remembers how to fill it.
// 2. Load, at the first read: the memory becomes accessible and is filled.
// 3. ForgetIdle, called after each node that is inferred or compiled: once more than kMostIdleBytes
//    are loaded, the memory is given back (MADV_DONTNEED); the next read fills it again.
// 4. Finish, at the end of the load: constants that kernels still refer to are loaded for good
//    (Keep), the newest first; the others were packed and are freed.
// 5. CheckMeanwhile runs checks of the load on other threads, and Finish waits for them.
//
// A pointer into forgotten memory ends the process by SIGSEGV instead of reading zeros: a wrong
// answer would be worse.

namespace {

// Smaller constants are not worth two calls of the system each.
constexpr int64_t kLeastBytes = int64_t{64} << 10;
// Loaded constants above this are given back after each node.
constexpr int64_t kMostIdleBytes = int64_t{32} << 20;

class DeferredConstant;

}  // namespace

// The deferred constants of one load, by age.
class DeferredSession {
 public:
  void Add(int64_t id, const std::weak_ptr<DeferredConstant>& constant) {
    const absl::MutexLock lock(&mutex_);
    constants_[id] = constant;
  }
  void Remove(int64_t id) {
    const absl::MutexLock lock(&mutex_);
    constants_.erase(id);
  }
  void Count(int64_t bytes) { loaded_bytes_ += bytes; }
  int64_t loaded_bytes() const { return loaded_bytes_; }
  int64_t NewId() { return next_id_++; }
  void Pause(int more) { paused_ += more; }
  bool is_paused() const { return paused_ > 0; }

  // On the thread of the scope.
  void Add(std::future<absl::Status> check) { checks_.push_back(std::move(check)); }
  absl::Status WaitForChecks() {
    absl::Status first;
    for (std::future<absl::Status>& check : checks_) {
      first.Update(check.get());
    }
    checks_.clear();
    return first;
  }

  void Fail(const absl::Status& status) {
    const absl::MutexLock lock(&mutex_);
    status_.Update(status);
  }
  absl::Status status() const {
    const absl::MutexLock lock(&mutex_);
    return status_;
  }
  // The newest living constant that is older than `id`; null without one.
  std::shared_ptr<DeferredConstant> Before(int64_t& id) const {
    const absl::MutexLock lock(&mutex_);
    for (auto it = constants_.lower_bound(id); it != constants_.begin();) {
      --it;
      if (auto constant = it->second.lock()) {
        id = it->first;
        return constant;
      }
    }
    return nullptr;
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<int64_t, std::weak_ptr<DeferredConstant>> constants_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::future<absl::Status>> checks_;
  std::atomic<int64_t> loaded_bytes_ = 0;
  std::atomic<int64_t> next_id_ = 0;
  std::atomic<int> paused_ = 0;
};

namespace {

// Has an address for the elements from the beginning, and memory only while they are loaded.
class DeferredConstant final : public DeferredElements {
 public:
  // Null if the process has too many mappings; then it is made at once.
  static std::shared_ptr<DeferredConstant> Make(int64_t bytes, FillElements fill,
                                                std::shared_ptr<DeferredSession> session) {
    void* const memory = mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return nullptr;
    }
    const int64_t id = session->NewId();
    std::shared_ptr<DeferredConstant> constant(
        new DeferredConstant(static_cast<std::byte*>(memory), bytes, std::move(fill), session, id));
    session->Add(id, constant);
    return constant;
  }

  ~DeferredConstant() override {
    session_->Remove(id_);
    if (!is_absent()) {
      CountHeld(-bytes_);
      session_->Count(kept_ ? 0 : -bytes_);
    }
    munmap(memory_, static_cast<size_t>(bytes_));
  }

  std::byte* memory() const { return memory_; }

  void Load() override {
    const absl::MutexLock lock(&mutex_);
    if (!absent_.load(std::memory_order_relaxed)) {
      return;
    }
    if (mprotect(memory_, static_cast<size_t>(bytes_), PROT_READ | PROT_WRITE) != 0) {
      throw std::bad_alloc();
    }
    WishHugePages(memory_, static_cast<size_t>(bytes_));
    const absl::Status status = fill_(memory_);
    if (!status.ok()) {
      std::fill_n(memory_, bytes_, std::byte{0});
      session_->Fail(status);
    }
    session_->Count(bytes_);
    CountHeld(bytes_);
    absent_.store(false, std::memory_order_release);
  }

  void Keep() override {
    Load();
    FillElements done;  // destroyed after the lock is released
    const absl::MutexLock lock(&mutex_);
    if (!kept_) {
      kept_ = true;
      session_->Count(-bytes_);
      std::swap(done, fill_);
    }
  }

  void Forget() override {
    const absl::MutexLock lock(&mutex_);
    if (kept_ || absent_.load(std::memory_order_relaxed)) {
      return;
    }
    absent_.store(true, std::memory_order_release);
    madvise(memory_, static_cast<size_t>(bytes_), MADV_DONTNEED);
    mprotect(memory_, static_cast<size_t>(bytes_), PROT_NONE);
    session_->Count(-bytes_);
    CountHeld(-bytes_);
  }

 private:
  DeferredConstant(std::byte* memory, int64_t bytes, FillElements fill,
                   std::shared_ptr<DeferredSession> session, int64_t id)
      : memory_(memory),
        bytes_(bytes),
        id_(id),
        session_(std::move(session)),
        fill_(std::move(fill)) {}

  std::byte* const memory_;
  const int64_t bytes_;
  const int64_t id_;
  const std::shared_ptr<DeferredSession> session_;
  absl::Mutex mutex_;
  FillElements fill_;
  bool kept_ = false;
};

thread_local std::shared_ptr<DeferredSession> current_session;

}  // namespace

DeferredScope::DeferredScope() {
  if (current_session == nullptr) {
    session_ = std::make_shared<DeferredSession>();
    current_session = session_;
  }
}

DeferredScope::~DeferredScope() { Finish().IgnoreError(); }

absl::Status DeferredScope::Finish() {
  if (session_ == nullptr) {
    return absl::OkStatus();
  }
  const std::shared_ptr<DeferredSession> session = std::move(session_);
  session_ = nullptr;
  current_session = nullptr;
  // Newest first: its inputs are then often unused and can be freed.
  int64_t id = session->NewId();
  while (const std::shared_ptr<DeferredConstant> constant = session->Before(id)) {
    if (constant.use_count() > 1) {
      constant->Keep();
    }
  }
  absl::Status status = session->WaitForChecks();
  status.Update(session->status());
  return status;
}

bool IsDeferred(int64_t bytes) { return current_session != nullptr && bytes >= kLeastBytes; }

ForgettingPaused::ForgettingPaused() : session_(current_session) {
  if (session_ != nullptr) {
    session_->Pause(1);
  }
}

ForgettingPaused::~ForgettingPaused() {
  if (session_ != nullptr) {
    session_->Pause(-1);
  }
}

bool CheckMeanwhile(std::function<absl::Status()> check) {
  if (current_session == nullptr) {
    return false;
  }
  // Finish may run while an exception is propagated, so the check's exceptions are caught here.
  auto guarded = [check = std::move(check)]() -> absl::Status {
    try {
      return check();
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("out of memory");
    }
  };
  try {
    current_session->Add(std::async(std::launch::async, std::move(guarded)));
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

absl::StatusOr<Tensor> MakeConstant(DType dtype, const Shape& shape, const FillElements& fill) {
  const int64_t bytes = NumElements(shape) * SizeOf(dtype);
  if (IsDeferred(bytes)) {
    const int64_t room = Tensor::BufferBytes(bytes);
    if (auto constant = DeferredConstant::Make(room, fill, current_session)) {
      std::byte* const memory = constant->memory();
      DeferredElements* const deferred = constant.get();
      return Tensor(dtype, shape, {std::move(constant), memory}, deferred);
    }
  }
  Tensor tensor(dtype, shape);
  BW_RETURN_IF_ERROR(fill(tensor.mutable_bytes()));
  return tensor;
}

void ForgetIdle() {
  if (current_session == nullptr || current_session->is_paused() ||
      current_session->loaded_bytes() <= kMostIdleBytes) {
    return;
  }
  int64_t id = current_session->NewId();
  while (const std::shared_ptr<DeferredConstant> constant = current_session->Before(id)) {
    constant->Forget();
  }
}

}  // namespace beamwright::ops
