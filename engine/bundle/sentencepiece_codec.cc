// The text form of a SentencePiece model. Its normalisation is the model file's own.

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "engine/bundle/bundle.h"
#include "engine/bundle/codec_base.h"
#include "engine/bundle/sentencepiece/shim.h"
#include "engine/status/fault.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::bundle {
namespace {

// SentencePieceModel: the SentencePiece library behind a wall. It is loaded at run time, apart from
// all that is linked (engine/bundle/sentencepiece/shim.h says why).

// Thread-safe after Load.
class SentencePieceModel {
 public:
  // `content`: a SentencePiece model file. The process holds equal files once: source and target of
  // a model, and models of one language, often share theirs. InvalidArgument if it is not such a
  // file, Unavailable if the library can't be loaded.
  static absl::StatusOr<std::shared_ptr<const SentencePieceModel>> Load(const std::string& content);
  ~SentencePieceModel();
  SentencePieceModel(const SentencePieceModel&) = delete;
  SentencePieceModel& operator=(const SentencePieceModel&) = delete;

  int size() const;
  int unknown_id() const;
  // -1 if there is no such piece.
  int Find(const std::string& piece) const;
  // id: in [0, size()).
  std::string Piece(int id) const;

  // Ids of `text`. InvalidArgument if the library fails.
  absl::StatusOr<std::vector<int>> Encode(const std::string& text) const;
  // The same as pieces: where the id is unknown_id() the piece is the stretch of text itself. Empty
  // on failure.
  std::vector<std::string> EncodePieces(const std::string& text) const;
  // ids in [0, size()).
  std::string Decode(const std::vector<int>& ids) const;

 private:
  SentencePieceModel(const BwSpFunctions& functions, void* handle)
      : functions_(functions), handle_(handle) {}

  const BwSpFunctions& functions_;
  void* const handle_;
};

// SentencePiece, from a separate library that is loaded when the first model needs it (LoadModule).
// SentencePiece contains a copy of protobuf, whose symbols would clash with this program's;
// RTLD_DEEPBIND lets the library use its copy, and the interface between them is a table of C
// functions.
//
// Load shares one model among bundles with the same file, by its digest. OpenModule looks next to
// the library or program, in the folders of an installation, and where the loader looks.

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

class SentencePieceCodec : public CodecBase {
 public:
  static absl::StatusOr<std::unique_ptr<TextCodec>> Create(const v1::TextConfig& config,
                                                           const std::string& content) {
    auto codec = absl::WrapUnique(new SentencePieceCodec);
    auto loaded = SentencePieceModel::Load(content);
    if (!loaded.ok()) {
      return Annotate(loaded.status(), absl::StrCat("vocabulary: '", config.vocabulary(), "'"));
    }
    codec->model_ = *std::move(loaded);
    codec->lowercase_ = config.lowercase();
    BW_RETURN_IF_ERROR(codec->FindSpecialTokens(
        config, [&](const std::string& token) { return codec->model_->Find(token); }));
    return std::unique_ptr<TextCodec>(std::move(codec));
  }

  absl::StatusOr<EncodedText> Encode(absl::string_view text) const override {
    BW_RETURN_IF_ERROR(CheckText(text));
    const std::string lowered = lowercase_ ? LowercaseLatin(text) : std::string(text);
    const absl::StatusOr<std::vector<int>> split = model_->Encode(lowered);
    if (!split.ok()) {
      return status::AtField(split.status(), "text");
    }
    const std::vector<int>& ids = *split;
    if (ids.empty()) {
      return status::InvalidField("text",
                                  "nothing is left of it after SentencePiece's normalisation");
    }
    EncodedText encoded = Begin();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] != model_->unknown_id() && !IsSpecial(ids[i])) {
        encoded.ids.push_back(ids[i]);
        continue;
      }
      const std::vector<std::string> pieces =
          unknown_id_ < 0 ? model_->EncodePieces(lowered) : std::vector<std::string>();
      BW_RETURN_IF_ERROR(
          AppendUnknown(i < pieces.size() ? pieces[i] : std::string(), "piece", i, encoded));
    }
    return End(std::move(encoded));
  }

  std::string Decode(absl::Span<const int32_t> ids) const override {
    std::string text;
    std::vector<int> run;  // ids that the library may see
    const auto flush = [&] {
      text += run.empty() ? "" : model_->Decode(run);
      run.clear();
    };
    for (const int32_t id : ids) {
      if (IsSilent(id)) {
        continue;
      }
      if (id >= 0 && id < model_->size()) {
        run.push_back(id);
      } else {
        flush();
        absl::StrAppend(&text, "<", id, ">");
      }
    }
    flush();
    return text;
  }

  // As the library decodes it: '▁' is a space, <0xE6> a byte; control symbols write nothing.
  std::string Written(int32_t id, bool is_first) const override {
    if (IsSilent(id)) {
      return "";
    }
    if (id < 0 || id >= model_->size()) {
      return absl::StrCat("<", id, ">");
    }
    const std::string piece = model_->Piece(id);
    if (const int byte = ByteOfPiece(piece); byte >= 0) {
      return std::string(1, static_cast<char>(byte));
    }
    const std::string alone = model_->Decode({id});
    if (is_first || !absl::StartsWith(piece, kWordBegin)) {
      return alone;
    }
    return absl::StrReplaceAll(piece, {{kWordBegin, " "}});
  }

  int32_t TokenId(const std::string& token) const override { return model_->Find(token); }

  std::string TokenText(int32_t id) const override {
    return id >= 0 && id < size() ? model_->Piece(id) : absl::StrCat("<", id, ">");
  }

  int size() const override { return model_->size(); }

 private:
  SentencePieceCodec() = default;

  bool lowercase_ = false;
  std::shared_ptr<const SentencePieceModel> model_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextCodec>> CreateSentencePieceCodec(const v1::TextConfig& config,
                                                                    const std::string& model) {
  return SentencePieceCodec::Create(config, model);
}

}  // namespace beamwright::bundle
