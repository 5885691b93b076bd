// SentencePiece, from a separate library that is loaded when the first model needs it (LoadModule).
// SentencePiece contains a copy of protobuf, whose symbols would clash with this program's;
// RTLD_DEEPBIND lets the library use its copy, and the interface between them is a table of C
// functions.
//
// Load shares one model among bundles with the same file, by its digest. OpenModule looks next to
// the library or program, in the folders of an installation, and where the loader looks.
#include "engine/bundle/sentencepiece_model.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "engine/bundle/bundle_files.h"
#include "engine/bundle/sentencepiece/shim.h"
#include "ops/base/status.h"

namespace beamwright::bundle {
namespace {

constexpr char kModule[] = "libbeamwright_sentencepiece.so";
constexpr char kEntry[] = "beamwright_sentencepiece";

// Sanitizers can't follow RTLD_DEEPBIND and end the program at once.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

// The folder of the library that this code is in; empty if it is the program's own.
std::filesystem::path FolderOfLibrary() {
  Dl_info info;
  link_map* map = nullptr;
  const bool found = dladdr1(reinterpret_cast<const void*>(&kModule), &info,
                             reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0;
  // The program's name is empty there.
  return found && map != nullptr && map->l_name[0] != '\0'
             ? std::filesystem::path(map->l_name).parent_path()
             : std::filesystem::path();
}

// Next to the library or the program, or where a build or an installation puts it from there, or
// where the loader looks.
void* OpenModule() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  // RTLD_NOW: a library that lacks something fails here and not in a request.
  constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
  for (const std::filesystem::path& home : {FolderOfLibrary(), program.parent_path()}) {
    for (const char* folder : {".", "beamwright", "../bin", "../lib", "../lib/beamwright"}) {
      const std::filesystem::path path = home / folder / kModule;
      if (!home.empty() && std::filesystem::exists(path, error)) {
        return dlopen(path.c_str(), kFlags);
      }
    }
  }
  return dlopen(kModule, kFlags);
}

absl::StatusOr<const BwSpFunctions*> LoadModule() {
  if (kSanitized) {
    return absl::UnavailableError("a sanitizer build cannot load the SentencePiece library");
  }
  // Never closed: models may use it as long as the process lives.
  void* module = OpenModule();
  const auto entry =
      module == nullptr ? nullptr : reinterpret_cast<BwSpEntry>(dlsym(module, kEntry));
  if (entry == nullptr) {
    const char* reason = dlerror();
    return absl::UnavailableError(absl::StrCat("cannot load the SentencePiece library: ",
                                               reason == nullptr ? kModule : reason));
  }
  return entry();
}

void Assign(void* context, const char* data, size_t size) {
  static_cast<std::string*>(context)->assign(data, size);
}

void Append(void* context, const char* data, size_t size) {
  static_cast<std::vector<std::string>*>(context)->emplace_back(data, size);
}

struct Encoding {
  std::vector<int> ids;
  std::string error;
};

void AppendId(void* context, int32_t id) { static_cast<Encoding*>(context)->ids.push_back(id); }

void SetError(void* context, const char* data, size_t size) {
  static_cast<Encoding*>(context)->error.assign(data, size);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const SentencePieceModel>> SentencePieceModel::Load(
    const std::string& content) {
  static absl::Mutex mutex(absl::kConstInit);
  static auto* const models = new std::map<std::string, std::weak_ptr<const SentencePieceModel>>;
  const std::string key = Sha256(content);
  const absl::MutexLock lock(&mutex);
  if (auto found = (*models)[key].lock()) {
    return found;
  }
  std::erase_if(*models, [](const auto& entry) { return entry.second.expired(); });
  static const auto* module = new absl::StatusOr<const BwSpFunctions*>(LoadModule());
  if (!module->ok()) {
    return module->status();
  }
  const BwSpFunctions& functions = ***module;
  std::string error;
  void* handle = functions.load(content.data(), content.size(), Assign, &error);
  if (handle == nullptr) {
    return Invalid("is not a SentencePiece model file: ", error);
  }
  const std::shared_ptr<const SentencePieceModel> model(new SentencePieceModel(functions, handle));
  (*models)[key] = model;
  return model;
}

SentencePieceModel::~SentencePieceModel() { functions_.unload(handle_); }

int SentencePieceModel::size() const { return functions_.size(handle_); }

int SentencePieceModel::unknown_id() const { return functions_.unknown_id(handle_); }

std::string SentencePieceModel::Piece(int id) const {
  std::string piece;
  functions_.piece(handle_, id, Assign, &piece);
  return piece;
}

int SentencePieceModel::Find(const std::string& piece) const {
  // The library answers with the unknown piece for whatever it lacks.
  const int id = functions_.find(handle_, piece.data(), piece.size());
  if (id < 0 || id >= size()) {
    return -1;
  }
  std::string found;
  functions_.piece(handle_, id, Assign, &found);
  return found == piece ? id : -1;
}

absl::StatusOr<std::vector<int>> SentencePieceModel::Encode(const std::string& text) const {
  Encoding encoding;
  if (functions_.encode(handle_, text.data(), text.size(), AppendId, SetError, &encoding) == 0) {
    return Invalid("SentencePiece cannot split it: ", encoding.error);
  }
  return std::move(encoding.ids);
}

std::vector<std::string> SentencePieceModel::EncodePieces(const std::string& text) const {
  std::vector<std::string> pieces;
  functions_.encode_pieces(handle_, text.data(), text.size(), Append, &pieces);
  return pieces;
}

std::string SentencePieceModel::Decode(const std::vector<int>& ids) const {
  std::string text;
  functions_.decode(handle_, ids.data(), ids.size(), Assign, &text);
  return text;
}

}  // namespace beamwright::bundle
