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

#include <filesystem>
#include <utility>

#include "engine/bundle/bundle_files.h"
#include "engine/bundle/model_config.h"
#include "engine/bundle/repository.h"
#include "ops/base/names.h"
#include "ops/base/status.h"
#include "ops/import/graph_file.h"

namespace beamwright::bundle {
namespace {

namespace fs = std::filesystem;

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
