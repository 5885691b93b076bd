// Loads a bundle: the folder of one version of a model.
//
// 1. OpenFiles: the files of the folder. Links may only lead into the model's folder or the folders
//    of --allow-links.
// 2. ReadHead: model.textproto, checked (ParseModelConfig), the model's name (the folder's, if it
//    is not set) and its version.
// 3. LoadFiles: LoadOwnGraphs reads the graphs of encoder, decoder, predictor and joiner; LoadCodec
//    the vocabularies; LoadFusion the ensemble, scorers, tables and what sound needs. CheckRest
//    then checks the files that the manifest lists and nothing has read.
// 4. ReadGolden: known requests and answers, by which the server tries the model.
//
// Nothing is compiled here; a Bundle holds the graphs and files as they are. An error says the
// bundle, the field of model.textproto that names the file, and the file.
#include "engine/bundle/bundle.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/bundle/repository.h"
#include "ops/base/check.h"
#include "ops/base/names.h"
#include "ops/base/status.h"
#include "ops/import/graph_file.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::bundle {

// Opens the files of a bundle. A path in model.textproto is untrusted: it must be relative, without
// "..", and what it resolves to, links included, must be inside one of the allowed folders
// (Resolve).
//
// If the bundle has a manifest (as sha256sum writes it), every file that is read is compared with
// its digest, and files that are listed but not read are compared at the end (CheckRest). The
// digest of a large file, such as weights, is computed on another thread while the graph is
// compiled (ops::CheckMeanwhile); the load fails if it differs.

namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxManifestBytes = int64_t{1} << 20;
constexpr size_t kDigestLength = 64;
// Some milliseconds of hashing.
constexpr int64_t kLeastHashedMeanwhile = int64_t{4} << 20;

absl::StatusOr<std::string> Canonical(const fs::path& path) {
  std::error_code error;
  const fs::path resolved = fs::canonical(path, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot open '", path.string(), "'"));
  }
  return resolved.string();
}

bool IsBelow(const std::string& path, const std::string& root) {
  const fs::path relative = fs::path(path).lexically_relative(root);
  return !relative.empty() && *relative.begin() != "..";
}

absl::Status CheckRelative(const std::string& path) {
  const fs::path parsed(path);
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Invalid("'", absl::CEscape(path), "' is not a valid path");
  }
  if (parsed.is_absolute()) {
    return Invalid("'", path, "' is an absolute path; give it relative to the bundle's folder");
  }
  if (std::find(parsed.begin(), parsed.end(), "..") != parsed.end()) {
    return Invalid("'", path, "' leaves the bundle's folder");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Sha256Of(const InputFile& file) {
  constexpr int64_t kPart = int64_t{1} << 20;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  BW_CHECK(context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1);
  std::string part;
  for (int64_t at = 0; at < file.size(); at += kPart) {
    part.resize(static_cast<size_t>(std::min(kPart, file.size() - at)));
    BW_RETURN_IF_ERROR(file.Read(at, static_cast<int64_t>(part.size()), part.data()));
    BW_CHECK(EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1);
  }
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  BW_CHECK(EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()),
                              nullptr) == 1);
  return absl::BytesToHexString(digest);
}

absl::Status Compare(const std::string& path, const std::string& digest,
                     const std::string& listed) {
  return digest == listed ? absl::OkStatus()
                          : absl::DataLossError(absl::StrCat(
                                "'", path, "' is not the file that ", kManifestName,
                                " lists: its SHA-256 is ", digest, ", listed is ", listed));
}

}  // namespace

std::string Sha256(absl::string_view content) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(content.data()), content.size(), digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

absl::StatusOr<BundleFiles> BundleFiles::Open(const std::string& folder,
                                              const std::vector<std::string>& roots) {
  BundleFiles files;
  files.folder_ = folder;
  for (const std::string& root : roots) {
    BW_ASSIGN_OR_RETURN(files.resolved_roots_.emplace_back(), Canonical(root));
  }
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return Invalid("'", folder, "' is not a folder");
  }
  if (IsThere((fs::path(folder) / kManifestName).string())) {
    const absl::Status status = files.ReadManifest();
    if (!status.ok()) {
      return Annotate(status, kManifestName);
    }
  }
  return files;
}

absl::Status BundleFiles::ReadManifest() {
  BW_ASSIGN_OR_RETURN(const std::string path, Resolve(kManifestName));
  BW_ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kMaxManifestBytes));
  int number = 0;
  for (absl::string_view line : absl::StrSplit(content, '\n')) {
    ++number;
    if (line.empty()) {
      continue;
    }
    // As sha256sum writes it: digest, a blank, then a blank (text) or an asterisk (binary).
    const std::string digest = absl::AsciiStrToLower(line.substr(0, kDigestLength));
    const bool formed = line.size() > kDigestLength + 2 && line[kDigestLength] == ' ' &&
                        (line[kDigestLength + 1] == ' ' || line[kDigestLength + 1] == '*') &&
                        digest.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!formed) {
      return Invalid("line ", number, " is not '<64 hex digits>  <path>', as sha256sum writes it");
    }
    const std::string name(line.substr(kDigestLength + 2));
    const absl::Status status = CheckRelative(name);
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("line ", number));
    }
    if (!digests_.emplace(fs::path(name).lexically_normal().string(), digest).second) {
      return Invalid("line ", number, ": '", name, "' is listed already");
    }
  }
  unchecked_ = digests_;
  return absl::OkStatus();
}

absl::StatusOr<std::string> BundleFiles::Resolve(const std::string& path) const {
  BW_RETURN_IF_ERROR(CheckRelative(path));
  BW_ASSIGN_OR_RETURN(const std::string resolved, Canonical(fs::path(folder_) / path));
  const bool is_inside =
      std::any_of(resolved_roots_.begin(), resolved_roots_.end(),
                  [&](const std::string& root) { return IsBelow(resolved, root); });
  if (!is_inside) {
    return Invalid("'", path, "' links to '", resolved, "', outside of '",
                   absl::StrJoin(resolved_roots_, "' and '"), "'");
  }
  return resolved;
}

absl::StatusOr<std::string> BundleFiles::Read(const std::string& path, int64_t max_bytes) {
  BW_ASSIGN_OR_RETURN(const std::string resolved, Resolve(path));
  BW_ASSIGN_OR_RETURN(std::string content, ReadFile(resolved, max_bytes));
  BW_RETURN_IF_ERROR(CheckDigest(path, Sha256(content)));
  return content;
}

absl::StatusOr<std::shared_ptr<const InputFile>> BundleFiles::OpenFile(const std::string& path) {
  BW_ASSIGN_OR_RETURN(const std::string resolved, Resolve(path));
  BW_ASSIGN_OR_RETURN(std::shared_ptr<const InputFile> file, InputFile::Open(resolved));
  const std::string name = fs::path(path).lexically_normal().string();
  const auto listed = digests_.find(name);
  if (listed != digests_.end()) {
    const auto check = [file, path, expected = listed->second]() -> absl::Status {
      BW_ASSIGN_OR_RETURN(const std::string digest, Sha256Of(*file));
      return Compare(path, digest, expected);
    };
    if (file->size() < kLeastHashedMeanwhile || !ops::CheckMeanwhile(check)) {
      BW_RETURN_IF_ERROR(check());
    }
    unchecked_.erase(name);
  }
  return file;
}

absl::Status BundleFiles::CheckDigest(const std::string& path, const std::string& digest) {
  const std::string name = fs::path(path).lexically_normal().string();
  const auto listed = digests_.find(name);
  if (listed == digests_.end()) {
    return absl::OkStatus();
  }
  BW_RETURN_IF_ERROR(Compare(path, digest, listed->second));
  unchecked_.erase(name);
  return absl::OkStatus();
}

absl::Status BundleFiles::CheckRest() {
  while (!unchecked_.empty()) {
    const std::string path = unchecked_.begin()->first;
    const absl::Status status = OpenFile(path).status();
    if (!status.ok()) {
      return Annotate(status, kManifestName);
    }
  }
  return absl::OkStatus();
}

namespace {

absl::StatusOr<std::string> ReadIfThere(const std::string& folder,
                                        absl::Span<const std::string> allow_links,
                                        const char* name) {
  if (!IsThere((std::filesystem::path(folder) / name).string())) {
    return std::string();
  }
  // Versions may share a file by a link within the model's folder, as of other files.
  const std::filesystem::path path(folder);
  std::vector<std::string> roots = {path.parent_path().string()};
  roots.insert(roots.end(), allow_links.begin(), allow_links.end());
  BW_ASSIGN_OR_RETURN(BundleFiles files, BundleFiles::Open(folder, roots));
  return files.Read(name, kMaxRequestFileBytes);
}

}  // namespace

absl::StatusOr<std::string> ReadGolden(const std::string& folder,
                                       absl::Span<const std::string> allow_links) {
  return ReadIfThere(folder, allow_links, "golden.jsonl");
}

absl::StatusOr<std::string> ReadWarmUp(const std::string& folder,
                                       absl::Span<const std::string> allow_links) {
  return ReadIfThere(folder, allow_links, "warmup.jsonl");
}

namespace {

absl::StatusOr<ops::Graph> LoadGraph(BundleFiles& files, const std::string& path) {
  return ops::ReadGraph(path, [&](const std::string& name) { return files.OpenFile(name); });
}

absl::StatusOr<std::shared_ptr<const TextCodec>> LoadCodec(BundleFiles& files,
                                                           const v1::TextConfig& config,
                                                           Vocabulary::Lines lines) {
  std::string vocabulary;
  if (!config.vocabulary().empty()) {
    absl::StatusOr<std::string> content = files.Read(config.vocabulary(), kMaxVocabularyBytes);
    if (!content.ok()) {
      return Annotate(content.status(), "vocabulary");
    }
    vocabulary = *std::move(content);
  }
  BW_ASSIGN_OR_RETURN(std::unique_ptr<TextCodec> codec,
                      TextCodec::Create(config, vocabulary, lines));
  return std::shared_ptr<const TextCodec>(std::move(codec));
}

// `status` with the name of the field in model.textproto that it is about.
absl::Status AtField(const absl::Status& status, absl::string_view field) {
  return Annotate(status, absl::StrCat(kConfigName, ": ", field));
}

absl::Status LoadMember(BundleFiles& files, const v1::EnsembleMember& config,
                        const std::string& field, Bundle& bundle) {
  Bundle::Member& member = bundle.members.emplace_back();
  if (config.has_encoder()) {
    absl::StatusOr<ops::Graph> encoder = LoadGraph(files, config.encoder().graph());
    if (!encoder.ok()) {
      return AtField(encoder.status(), field + ".encoder.graph");
    }
    member.encoder = *std::move(encoder);
  }
  absl::StatusOr<ops::Graph> decoder = LoadGraph(files, config.decoder().graph());
  if (!decoder.ok()) {
    return AtField(decoder.status(), field + ".decoder.graph");
  }
  member.decoder = *std::move(decoder);
  return absl::OkStatus();
}

absl::Status LoadScorer(BundleFiles& files, const v1::ScorerConfig& config,
                        const std::string& field, Bundle& bundle) {
  if (config.has_ngram()) {
    absl::StatusOr<std::string> content = files.Read(config.ngram().file(), kMaxNgramBytes);
    if (!content.ok()) {
      return AtField(content.status(), field + ".ngram.file");
    }
    bundle.ngrams[config.name()] = *std::move(content);
  }
  if (config.has_language_model()) {
    absl::StatusOr<ops::Graph> graph = LoadGraph(files, config.language_model().graph());
    if (!graph.ok()) {
      return AtField(graph.status(), field + ".language_model.graph");
    }
    bundle.language_models[config.name()] = *std::move(graph);
  }
  return absl::OkStatus();
}

// Language models, other scorers and tables that a bundle adds to its encoder and decoder.
absl::Status LoadFusion(BundleFiles& files, Bundle& bundle) {
  const v1::ModelConfig& config = bundle.config;
  for (int i = 0; i < config.ensemble().members_size(); ++i) {
    BW_RETURN_IF_ERROR(LoadMember(files, config.ensemble().members(i),
                                  absl::StrCat("ensemble.members[", i, "]"), bundle));
  }
  for (int i = 0; i < config.scorers_size(); ++i) {
    BW_RETURN_IF_ERROR(
        LoadScorer(files, config.scorers(i), absl::StrCat("scorers[", i, "]"), bundle));
  }
  if (config.has_lexical_table()) {
    absl::StatusOr<std::string> content =
        files.Read(config.lexical_table().file(), kMaxTokenListBytes);
    if (!content.ok()) {
      return AtField(content.status(), "lexical_table.file");
    }
    bundle.lexical_table = *std::move(content);
  }
  if (!config.sound().cmvn().empty()) {
    absl::StatusOr<std::string> content = files.Read(config.sound().cmvn(), kMaxTokenListBytes);
    if (!content.ok()) {
      return AtField(content.status(), "sound.cmvn");
    }
    bundle.cmvn = *std::move(content);
  }
  if (!config.sound().activity().empty()) {
    absl::StatusOr<ops::Graph> graph = LoadGraph(files, config.sound().activity());
    if (!graph.ok()) {
      return AtField(graph.status(), "sound.activity");
    }
    bundle.activity = *std::move(graph);
  }
  return absl::OkStatus();
}

absl::Status LoadTransducer(BundleFiles& files, Bundle& bundle) {
  const v1::TransducerConfig& config = bundle.config.transducer();
  absl::StatusOr<ops::Graph> predictor = LoadGraph(files, config.predictor().graph());
  if (!predictor.ok()) {
    return AtField(predictor.status(), "transducer.predictor.graph");
  }
  bundle.predictor = *std::move(predictor);
  if (config.joiner().graph().empty()) {
    return absl::OkStatus();
  }
  absl::StatusOr<ops::Graph> joiner = LoadGraph(files, config.joiner().graph());
  if (!joiner.ok()) {
    return AtField(joiner.status(), "transducer.joiner.graph");
  }
  bundle.joiner = *std::move(joiner);
  return absl::OkStatus();
}

// The graphs of the model's encoder and of its decoder, CTC, tagger or transducer.
absl::Status LoadOwnGraphs(BundleFiles& files, Bundle& bundle) {
  const v1::ModelConfig& config = bundle.config;
  if (config.has_encoder()) {
    absl::StatusOr<ops::Graph> encoder = LoadGraph(files, config.encoder().graph());
    if (!encoder.ok()) {
      return AtField(encoder.status(), "encoder.graph");
    }
    bundle.encoder = *std::move(encoder);
  }
  if (config.has_transducer()) {
    return LoadTransducer(files, bundle);
  }
  if (config.has_tags() && !config.tags().transitions().empty()) {
    absl::StatusOr<std::string> transitions =
        files.Read(config.tags().transitions(), kMaxTransitionBytes);
    if (!transitions.ok()) {
      return AtField(transitions.status(), "tags.transitions");
    }
    bundle.transitions = *std::move(transitions);
  }
  if (config.has_ctc() || config.has_tags()) {
    return absl::OkStatus();
  }
  absl::StatusOr<ops::Graph> decoder = LoadGraph(files, config.decoder().graph());
  if (!decoder.ok()) {
    return AtField(decoder.status(), "decoder.graph");
  }
  bundle.decoder = *std::move(decoder);
  return absl::OkStatus();
}

absl::Status LoadFiles(BundleFiles& files, Bundle& bundle) {
  const v1::ModelConfig& config = bundle.config;
  BW_RETURN_IF_ERROR(LoadOwnGraphs(files, bundle));
  absl::StatusOr<std::shared_ptr<const TextCodec>> source =
      LoadCodec(files, config.source(), Vocabulary::Lines::kDistinct);
  if (!source.ok()) {
    return AtField(source.status(), "source");
  }
  bundle.source = *std::move(source);
  // Canary's tokens of several languages share texts.
  absl::StatusOr<std::shared_ptr<const TextCodec>> target = LoadCodec(
      files, config.target(),
      SearchOf(config) != v1::SEARCH_TOKENS || config.has_sound() ? Vocabulary::Lines::kColumns
                                                                  : Vocabulary::Lines::kDistinct);
  if (!target.ok()) {
    return AtField(target.status(), "target");
  }
  bundle.target = *std::move(target);
  for (int i = 0; i < config.token_lists_size(); ++i) {
    absl::StatusOr<std::string> content =
        files.Read(config.token_lists(i).file(), kMaxTokenListBytes);
    if (!content.ok()) {
      return AtField(content.status(), absl::StrCat("token_lists[", i, "].file"));
    }
    bundle.token_lists[config.token_lists(i).name()] = *std::move(content);
  }
  BW_RETURN_IF_ERROR(LoadFusion(files, bundle));
  return files.CheckRest();
}

absl::StatusOr<BundleFiles> OpenFiles(const fs::path& folder,
                                      absl::Span<const std::string> allow_links) {
  const bool versioned = IsVersion(folder.filename().string());
  std::vector<std::string> roots = {(versioned ? folder.parent_path() : folder).string()};
  roots.insert(roots.end(), allow_links.begin(), allow_links.end());
  return BundleFiles::Open(folder.string(), roots);
}

// `bundle` has the members of a BundleHead.
template <typename Head>
absl::Status ReadHead(const fs::path& folder, BundleFiles& files, Head& bundle) {
  const bool versioned = IsVersion(folder.filename().string());
  const fs::path root = versioned ? folder.parent_path() : folder;
  bundle.version = versioned ? folder.filename().string() : "1";
  BW_ASSIGN_OR_RETURN(const std::string text, files.Read(kConfigName, kMaxConfigBytes));
  absl::StatusOr<v1::ModelConfig> config = ParseModelConfig(text);
  if (!config.ok()) {
    return Annotate(config.status(), kConfigName);
  }
  bundle.config = *std::move(config);
  bundle.name = bundle.config.name();
  if (bundle.name.empty()) {
    bundle.name = root.filename().string();
    const absl::Status status = CheckModelName(bundle.name);
    if (!status.ok()) {
      return AtField(status, "name: is not set, and the folder's name will not do");
    }
  }
  return absl::OkStatus();
}

absl::Status Load(const fs::path& folder, absl::Span<const std::string> allow_links,
                  Bundle& bundle) {
  BW_ASSIGN_OR_RETURN(BundleFiles files, OpenFiles(folder, allow_links));
  BW_RETURN_IF_ERROR(ReadHead(folder, files, bundle));
  BW_RETURN_IF_ERROR(LoadFiles(files, bundle));
  BW_ASSIGN_OR_RETURN(bundle.golden, ReadGolden(folder.string(), allow_links));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Bundle> LoadBundle(const std::string& folder,
                                  absl::Span<const std::string> allow_links) {
  Bundle bundle;
  const absl::Status status = Load(NormalFolder(folder), allow_links, bundle);
  if (!status.ok()) {
    return Annotate(status, absl::StrCat("bundle '", folder, "'"));
  }
  return bundle;
}

absl::StatusOr<BundleHead> ReadBundleHead(const std::string& folder,
                                          absl::Span<const std::string> allow_links) {
  const fs::path path = NormalFolder(folder);
  BundleHead head;
  absl::StatusOr<BundleFiles> files = OpenFiles(path, allow_links);
  const absl::Status status = files.ok() ? ReadHead(path, *files, head) : files.status();
  if (!status.ok()) {
    return Annotate(status, absl::StrCat("bundle '", folder, "'"));
  }
  return head;
}

}  // namespace beamwright::bundle
