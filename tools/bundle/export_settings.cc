// Takes the settings of a model from the files that transformers saves with an export, so that
// `init` needs no flags for it: config.json, generation_config.json, preprocessor_config.json and
// tokenizer.json, in the graph's folder or, if that is called "onnx", in the folder above.
//
// 1. Export::Read reads the JSON files as google.protobuf.Struct. A setting is searched for in
//    generation_config.json, then config.json, then its part for the decoder (Setting).
// 2. SoundOf, PictureOf: how sound or pictures are prepared. SetTexts: the vocabularies of an
//    encoder-decoder of texts, and what ends its sources. Other models keep their usual guesses,
//    and the rest is skipped.
// 3. SetShape, SetTokens: axis of the length, tokens that begin and end a target.
// 4. SetPrefix: Whisper's answers begin with tokens for language, task and "no times".
// 5. SetSearch: beam size, length penalty and limits as transformers' generate() uses them, so that
//    answers are the same. transformers counts the begin token and the prefix as part of
//    max_length; here they do not count.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/bundle/text_codec.h"
#include "engine/bundle/tokenizer_file.h"
#include "ops/base/file.h"
#include "ops/base/status.h"
#include "tools/bundle/init_parts.h"
#include "tools/bundle/text_side.h"
#include "tools/bundle/token_file.h"

namespace beamwright::tools {
namespace {

namespace fs = std::filesystem;
using google::protobuf::ListValue;
using google::protobuf::Struct;
using google::protobuf::Value;

// Null if the object lacks the member, or has null there.
const Value* Member(const Struct& object, const char* name) {
  const auto found = object.fields().find(name);
  return found == object.fields().end() || found->second.has_null_value() ? nullptr
                                                                          : &found->second;
}

std::optional<double> NumberOf(const Struct& object, const char* name) {
  const Value* const value = Member(object, name);
  return value != nullptr && value->has_number_value() ? std::optional(value->number_value())
                                                       : std::nullopt;
}
int IntOf(const Struct& object, const char* name, int otherwise) {
  const std::optional<double> number = NumberOf(object, name);
  return number.has_value() && *number >= 0 && *number <= INT32_MAX ? static_cast<int>(*number)
                                                                    : otherwise;
}
std::string TextOf(const Struct& object, const char* name) {
  const Value* const value = Member(object, name);
  return value == nullptr ? "" : value->string_value();
}
bool IsTrue(const Struct& object, const char* name, bool otherwise) {
  const Value* const value = Member(object, name);
  return value != nullptr && value->has_bool_value() ? value->bool_value() : otherwise;
}
// A number, or a list of numbers; empty if it is something else.
std::vector<float> NumbersOf(const Value* value) {
  std::vector<float> numbers;
  if (value != nullptr && value->has_number_value()) {
    numbers.push_back(static_cast<float>(value->number_value()));
  } else if (value != nullptr && value->has_list_value()) {
    for (const Value& one : value->list_value().values()) {
      numbers.push_back(static_cast<float>(one.number_value()));
    }
  }
  return numbers;
}
std::vector<int32_t> IdsOf(const Value* value) {
  const std::vector<float> numbers = NumbersOf(value);
  return {numbers.begin(), numbers.end()};  // below 2^24
}

// The files of one export.
class Export {
 public:
  static absl::StatusOr<std::optional<Export>> Read(const std::string& graph) {
    Export found;
    found.folder_ = fs::path(graph).parent_path();
    std::error_code error;
    if (!fs::exists(found.folder_ / kConfig, error)) {
      const fs::path folder = fs::absolute(found.folder_ / "", error).parent_path();
      if (folder.filename() != "onnx" || !fs::exists(folder.parent_path() / kConfig, error)) {
        return std::optional<Export>();
      }
      found.folder_ = folder.parent_path();
    }
    BW_RETURN_IF_ERROR(found.ReadJson(kConfig, found.config));
    BW_RETURN_IF_ERROR(found.ReadJson("generation_config.json", found.generation));
    BW_RETURN_IF_ERROR(found.ReadJson("preprocessor_config.json", found.preprocessor));
    return std::optional(std::move(found));
  }

  std::string tokenizer() const { return PathOf("tokenizer.json"); }
  // The path of a file of the export; empty: the export lacks it.
  std::string PathOf(const char* name) const {
    const fs::path path = folder_ / name;
    std::error_code error;
    return fs::exists(path, error) ? path.string() : "";
  }

  // A setting of generation_config.json; older models have it in config.json, or in that file's
  // part for the decoder.
  const Value* Setting(const char* name) const {
    const Value* const part = Member(config, "decoder");
    for (const Struct* const object :
         {&generation, &config, part == nullptr ? nullptr : &part->struct_value()}) {
      const Value* const value = object == nullptr ? nullptr : Member(*object, name);
      if (value != nullptr) {
        return value;
      }
    }
    return nullptr;
  }
  int IntSetting(const char* name, int otherwise) const {
    const Value* const value = Setting(name);
    return value != nullptr && value->has_number_value() && value->number_value() >= 0
               ? static_cast<int>(value->number_value())
               : otherwise;
  }

  Struct config;
  Struct generation;
  Struct preprocessor;

 private:
  static constexpr char kConfig[] = "config.json";

  // Reads a JSON file; if it is missing, the object stays empty.
  absl::Status ReadJson(const char* name, Struct& object) {
    const fs::path path = folder_ / name;
    std::error_code error;
    if (!fs::exists(path, error)) {
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(const std::string content, ReadFile(path.string()));
    const auto parsed = google::protobuf::util::JsonStringToMessage(content, &object);
    return parsed.ok() ? absl::OkStatus()
                       : Invalid("'", path.string(), "' is no JSON: ", parsed.ToString());
  }

  fs::path folder_;
};

// The settings of a feature extractor of sound; no value if it is something else.
std::optional<v1::SoundConfig> SoundOf(const Export& exported) {
  const Struct& settings = exported.preprocessor;
  const std::string type = TextOf(settings, "feature_extractor_type");
  v1::SoundConfig sound;
  sound.set_sample_rate(IntOf(settings, "sampling_rate", 0));
  if (type == "WhisperFeatureExtractor") {
    constexpr int kUsualSeconds = 30;
    sound.set_kind(v1::SOUND_KIND_WHISPER);
    sound.set_num_bins(IntOf(settings, "feature_size", 0));
    sound.set_window_length(IntOf(settings, "n_fft", 0));
    sound.set_window_shift(IntOf(settings, "hop_length", 0));
    const int seconds = IntOf(settings, "chunk_length", kUsualSeconds);
    if (seconds != kUsualSeconds) {
      sound.set_pad_ms(1000 * seconds);
    }
    return sound;
  }
  if (type == "Wav2Vec2FeatureExtractor" && IntOf(settings, "feature_size", 1) == 1) {
    sound.set_kind(v1::SOUND_KIND_SAMPLES);
    sound.set_normalize(IsTrue(settings, "do_normalize", true));
    return sound;
  }
  return std::nullopt;
}

// The settings of an image processor that stretches a picture to one size; no value if it is
// something else.
std::optional<v1::PictureConfig> PictureOf(const Export& exported) {
  const Struct& settings = exported.preprocessor;
  const Value* const size = Member(settings, "size");
  if (size == nullptr || !IsTrue(settings, "do_resize", true) ||
      IsTrue(settings, "do_center_crop", false) || IsTrue(settings, "do_pad", false) ||
      IsTrue(settings, "do_thumbnail", false)) {
    return std::nullopt;
  }
  v1::PictureConfig picture;
  const int side = size->has_number_value() ? static_cast<int>(size->number_value()) : 0;
  picture.set_height(side > 0 ? side : IntOf(size->struct_value(), "height", 0));
  picture.set_width(side > 0 ? side : IntOf(size->struct_value(), "width", 0));
  if (picture.height() == 0 || picture.width() == 0) {
    return std::nullopt;
  }
  picture.set_channels(3);
  if (IsTrue(settings, "do_normalize", true)) {
    for (const float mean : NumbersOf(Member(settings, "image_mean"))) {
      picture.add_mean(mean);
    }
    for (const float deviation : NumbersOf(Member(settings, "image_std"))) {
      picture.add_scale(deviation > 0 ? 1 / deviation : 1);
    }
  }
  constexpr int kLanczos = 1;  // numbers of Pillow's filters
  constexpr int kBicubic = 3;
  const int filter = IntOf(settings, "resample", 2);
  picture.set_filter(filter == kLanczos   ? v1::PICTURE_FILTER_PILLOW_LANCZOS
                     : filter == kBicubic ? v1::PICTURE_FILTER_PILLOW_BICUBIC
                                          : v1::PICTURE_FILTER_PILLOW_BILINEAR);
  return picture;
}

class Reader {
 public:
  Reader(const Export& exported, InitOptions& options) : export_(exported), options_(options) {}

  absl::StatusOr<std::optional<ExportSettings>> Run() {
    settings_.sound = SoundOf(export_);
    if (!settings_.sound.has_value()) {
      settings_.picture = PictureOf(export_);
    }
    const bool has_input = settings_.sound.has_value() || settings_.picture.has_value();
    const bool is_text = !has_input && export_.preprocessor.fields().empty() &&
                         IsTrue(export_.config, "is_encoder_decoder", false);
    if (!has_input && !is_text) {
      return std::optional<ExportSettings>();
    }
    if (is_text) {
      SetTexts();
    } else {
      SetShape();
    }
    BW_RETURN_IF_ERROR(SetTokens());
    BW_RETURN_IF_ERROR(is_text ? SetSourceTokens() : SetPrefix());
    SetSearch();
    return std::optional(std::move(settings_));
  }

 private:
  bool IsOneOf(absl::Span<const absl::string_view> types) const {
    return absl::c_linear_search(types, TextOf(export_.config, "model_type"));
  }

  // The vocabularies of both sides, unless flags name one.
  void SetTexts() {
    if (!options_.source_vocab.empty() || !options_.target_vocab.empty()) {
      return;
    }
    options_.source_vocab = export_.PathOf("source.spm");
    options_.target_vocab = export_.PathOf("target.spm");
    const std::string ids = export_.PathOf("vocab.json");
    if (options_.source_vocab.empty() || options_.target_vocab.empty() || ids.empty()) {
      options_.source_vocab = options_.target_vocab = export_.tokenizer();
    } else if (options_.token_ids.empty()) {
      options_.token_ids = ids;
      settings_.reasons.push_back(
          "texts are cut by source.spm and target.spm, whose pieces vocab.json numbers");
    }
  }

  // What transformers' tokenizers of these models put around a source.
  absl::Status SetSourceTokens() {
    constexpr absl::string_view kEnded[] = {"marian", "t5", "mt5", "umt5", "longt5", "pegasus"};
    constexpr absl::string_view kFramed[] = {"bart", "led"};
    const bool is_framed = IsOneOf(kFramed);
    if (options_.source_vocab.empty() || (!is_framed && !IsOneOf(kEnded))) {
      return absl::OkStatus();
    }
    BW_ASSIGN_OR_RETURN(const auto name, NamesOf(options_.source_vocab));
    if (name == nullptr) {
      return absl::OkStatus();
    }
    SpecialTokens& special = options_.special;
    const int begin = export_.IntSetting("bos_token_id", -1);
    const std::vector<int32_t> ends = IdsOf(export_.Setting("eos_token_id"));
    if (is_framed && begin >= 0 && !special.source_begin.has_value()) {
      special.source_begin = name(begin);
    }
    if (!ends.empty() && !special.source_end.has_value()) {
      special.source_end = name(ends[0]);
      settings_.reasons.push_back(
          absl::StrCat("sources end with '", *special.source_end,
                       "', as transformers' tokenizer of this model has it"));
    }
    return absl::OkStatus();
  }

  void SetShape() {
    if (settings_.picture.has_value()) {
      v1::PictureConfig& picture = *settings_.picture;
      if (options_.input_shape.empty() && !options_.length_axis.has_value()) {
        options_.input_shape = {picture.channels(), picture.height(), picture.width()};
        options_.length_axis = 3;
      }
      settings_.reasons.push_back("pictures are prepared as preprocessor_config.json says");
      return;
    }
    if (settings_.sound->kind() == v1::SOUND_KIND_WHISPER && !options_.length_axis.has_value()) {
      options_.length_axis = 2;
    }
    settings_.reasons.push_back(absl::StrCat(
        "sound becomes ",
        settings_.sound->kind() == v1::SOUND_KIND_WHISPER ? "Whisper's features" : "samples",
        " as preprocessor_config.json says"));
  }

  // Names of ids: by their text in the vocabulary, without one as numbers; null: it is a list of
  // tokens.
  absl::StatusOr<std::function<std::string(int32_t)>> NamesOf(const std::string& vocabulary) {
    using Names = std::function<std::string(int32_t)>;
    if (vocabulary.empty()) {
      return Names([](int32_t id) { return absl::StrCat(id); });
    }
    BW_ASSIGN_OR_RETURN(const std::string content, ReadText(vocabulary, options_.token_ids));
    const bool is_sentencepiece = IsSentencePiece(vocabulary);
    if (!is_sentencepiece && !bundle::IsTokenizerFile(content)) {
      return Names();
    }
    if (!is_sentencepiece) {
      BW_ASSIGN_OR_RETURN(const std::optional<std::string> list, PiecesOfTokenizer(content));
      if (list.has_value()) {
        const std::vector<std::string> pieces = absl::StrSplit(*list, '\n');
        return Names([pieces](int32_t id) {
          const auto at = static_cast<size_t>(id);
          return at < pieces.size() ? pieces[at] : absl::StrCat(id);
        });
      }
    }
    v1::TextConfig config;
    config.set_form(is_sentencepiece ? v1::TEXT_FORM_SENTENCEPIECE : v1::TEXT_FORM_PIECES);
    config.set_vocabulary(is_sentencepiece ? "target.model" : "tokenizer.json");
    absl::StatusOr<std::unique_ptr<bundle::TextCodec>> codec =
        bundle::TextCodec::Create(config, content);
    if (!codec.ok()) {
      return Annotate(codec.status(), absl::StrCat("'", vocabulary, "'"));
    }
    return Names([codec = std::shared_ptr<const bundle::TextCodec>(*std::move(codec))](int32_t id) {
      return id < codec->size() ? codec->TokenText(id) : absl::StrCat(id);
    });
  }

  // Which tokens begin and end a target, by their text in the vocabulary, else as numbers.
  absl::Status SetTokens() {
    if (options_.target_vocab.empty()) {
      options_.target_vocab = export_.tokenizer();
    }
    BW_ASSIGN_OR_RETURN(const auto name, NamesOf(options_.target_vocab));
    if (name == nullptr) {
      return absl::OkStatus();  // a list of tokens has names for them
    }
    const int begin =
        export_.IntSetting("decoder_start_token_id", export_.IntSetting("bos_token_id", -1));
    if (options_.special.begin.empty() && begin >= 0) {
      options_.special.begin = name(begin);
      settings_.reasons.push_back(absl::StrCat("target begin token '", name(begin),
                                               "': decoder_start_token_id of the export"));
    }
    if (options_.special.ends.empty()) {
      for (const int32_t id : IdsOf(export_.Setting("eos_token_id"))) {
        options_.special.ends.push_back(name(id));
      }
      settings_.reasons.push_back(absl::StrCat("target end token '",
                                               absl::StrJoin(options_.special.ends, "', '"),
                                               "': eos_token_id of the export"));
    }
    return absl::OkStatus();
  }

  // Whisper: language, task, no times.
  absl::Status SetPrefix() {
    std::vector<int32_t> prefix;
    const Value* const languages = export_.Setting("lang_to_id");
    if (languages != nullptr) {
      BW_ASSIGN_OR_RETURN(const int32_t language, LanguageId(languages->struct_value()));
      prefix.push_back(language);
      const bool translates = options_.target_language == "en" && options_.source_language != "en";
      const Value* const tasks = export_.Setting("task_to_id");
      const char* const task = translates ? "translate" : "transcribe";
      const int id = tasks == nullptr ? -1 : IntOf(tasks->struct_value(), task, -1);
      if (id >= 0) {
        prefix.push_back(id);
      }
    } else if (const Value* const forced = export_.Setting("forced_decoder_ids");
               forced != nullptr) {
      for (const Value& pair : forced->list_value().values()) {
        const std::vector<float> numbers = NumbersOf(&pair);  // null counts as 0
        if (numbers.size() == 2 && numbers[1] > 0) {
          prefix.push_back(static_cast<int32_t>(numbers[1]));
        }
      }
    }
    const int no_times = export_.IntSetting("no_timestamps_token_id", -1);
    if (no_times >= 0 && (prefix.empty() || prefix.back() != no_times)) {
      prefix.push_back(no_times);
    }
    if (!prefix.empty()) {
      settings_.options.mutable_target_prefix()->mutable_ids()->mutable_ids()->Assign(
          prefix.begin(), prefix.end());
      settings_.reasons.push_back(
          absl::StrCat("answers begin with the ids ", absl::StrJoin(prefix, ", "),
                       ": language, task and no times, as generation_config.json names them"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int32_t> LanguageId(const Struct& languages) {
    std::string language = options_.source_language;
    if (language.empty()) {
      const Value* const set = export_.Setting("language");
      language = set == nullptr ? "" : set->string_value();
    }
    if (language.empty()) {
      language = "en";
      settings_.unknown.push_back(
          "the language of the sound: answers begin with that of English; say another with --from, "
          "or for each request with `language` (transcriptions) or target_prefix");
    }
    const std::string token =
        absl::StartsWith(language, "<|") ? language : absl::StrCat("<|", language, "|>");
    const int id = IntOf(languages, token.c_str(), -1);
    return id >= 0 ? absl::StatusOr<int32_t>(id)
                   : Invalid("--from: the model has no language '", language,
                             "' (lang_to_id of generation_config.json)");
  }

  void SetSearch() {
    v1::DecodeOptions& search = settings_.options;
    const auto set_ids = [this](const char* name, v1::TargetTokens& tokens) {
      const std::vector<int32_t> ids = IdsOf(export_.Setting(name));
      tokens.mutable_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
      return !ids.empty();
    };
    if (!set_ids("suppress_tokens", *search.mutable_suppress_tokens())) {
      search.clear_suppress_tokens();
    }
    if (const Value* const words = export_.Setting("bad_words_ids"); words != nullptr) {
      for (const Value& word : words->list_value().values()) {
        if (const std::vector<int32_t> ids = IdsOf(&word); ids.size() == 1) {
          search.mutable_suppress_tokens()->mutable_ids()->add_ids(ids[0]);
        }
      }
    }
    if (!set_ids("begin_suppress_tokens", *search.mutable_suppress_at_begin())) {
      search.clear_suppress_at_begin();
    }
    search.set_beam_size(export_.IntSetting("num_beams", 1));
    search.set_length_penalty(v1::LENGTH_PENALTY_POW);
    const Value* const alpha = export_.Setting("length_penalty");
    search.set_length_penalty_alpha(alpha != nullptr && alpha->has_number_value()
                                        ? static_cast<float>(alpha->number_value())
                                        : 1.0F);
    search.set_renormalize(false);
    const Value* const stops = export_.Setting("early_stopping");  // true, false or "never"
    if (stops == nullptr || !stops->has_string_value()) {
      search.set_stop(stops != nullptr && stops->bool_value() ? v1::STOP_MODE_COUNT
                                                              : v1::STOP_MODE_HEURISTIC);
    }
    if (const int most = export_.IntSetting("no_repeat_ngram_size", 0); most > 0) {
      search.set_no_repeat_ngram(most);
    }
    // transformers counts the begin token and the prefix.
    const int given = 1 + search.target_prefix().ids().ids_size();
    const int in_all = export_.IntSetting("max_length", 0) - given;
    const int most = export_.IntSetting("max_new_tokens", in_all);
    if (most > 0) {
      search.set_max_length(most);
    }
    settings_.reasons.push_back(
        "default_options are those of generation_config.json and of transformers' generate");
  }

  const Export& export_;
  InitOptions& options_;
  ExportSettings settings_;
};

}  // namespace

absl::StatusOr<std::optional<ExportSettings>> TakeExportSettings(InitOptions& options) {
  if (options.encoder.empty()) {
    return std::optional<ExportSettings>();
  }
  BW_ASSIGN_OR_RETURN(const std::optional<Export> exported, Export::Read(options.encoder));
  return exported.has_value() ? Reader(*exported, options).Run()
                              : absl::StatusOr<std::optional<ExportSettings>>(std::nullopt);
}

}  // namespace beamwright::tools
