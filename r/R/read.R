# A posterior file is safetensors: eight bytes with the length of a JSON header, the header, then the numbers of all
# arrays. The header's metadata key "decbayes" is JSON again: what the file is about. docs/file-format.md has all.

FORMAT <- "decbayes posterior 1"
MOST_HEADER <- 2^25

#' Read a posterior file.
#'
#' @param path A file that `decbayes fit`, `merge` or `refine` has written.
#' @return A list of class "decbayes": model, families, labels, prior, contribution and natural parameters (one row per
#'   component), ids, calibration and note.
read_posterior <- function(path) {
  if (!file.exists(path)) stop(path, " does not exist.", call. = FALSE)
  connection <- file(path, "rb")
  on.exit(close(connection))
  size <- file.size(path)
  length <- if (size < 8) 0 else sum(as.integer(readBin(connection, "raw", 8)) * 256^(0:7))
  if (length < 2 || length > min(MOST_HEADER, size - 8)) not_a_posterior(path)
  header <- parsed(path, rawToChar(readBin(connection, "raw", length)))
  text <- header[["__metadata__"]][["decbayes"]]
  if (is.null(text)) not_a_posterior(path)
  about <- parsed(path, text)
  if (!identical(about$format, FORMAT)) {
    stop(path, " has another format than '", FORMAT, "'; it may come from another version of decbayes.", call. = FALSE)
  }
  content <- readBin(connection, "raw", size - 8 - length)
  header[["__metadata__"]] <- NULL
  posterior(about, lapply(header, tensor, content = content, path = path))
}

not_a_posterior <- function(path) stop(path, " is not a posterior file of decbayes, or is damaged.", call. = FALSE)

parsed <- function(path, text) {
  Encoding(text) <- "UTF-8"
  tryCatch(jsonlite::fromJSON(text, simplifyVector = FALSE), error = function(error) not_a_posterior(path))
}

# One array, as a matrix with the file's rows; vectors of sparse arrays stay vectors.
tensor <- function(described, content, path) {
  ends <- unlist(described$data_offsets)
  kind <- switch(described$dtype, F64 = list("double", 8), I32 = list("integer", 4), not_a_posterior(path))
  shape <- unlist(described$shape)
  count <- prod(shape)
  if (ends[2] > length(content) || ends[2] - ends[1] != count * kind[[2]]) not_a_posterior(path)
  bytes <- if (count) content[(ends[1] + 1):ends[2]] else raw()
  values <- readBin(bytes, kind[[1]], count, size = kind[[2]], endian = "little")
  if (length(shape) == 2) matrix(values, shape[1], shape[2], byrow = TRUE) else values
}

posterior <- function(about, tensors) {
  structure <- about$structure
  factors <- names(structure$families)
  shapes <- lapply(structure$shapes, unlist)
  prior <- setNames(lapply(factors, function(name) spread(tensors[[paste0("prior/", name)]], shapes[[name]])), factors)
  contribution <- setNames(
    lapply(factors, function(name) contribution_of(tensors, name, shapes[[name]], name %in% unlist(structure$sparse))),
    factors
  )
  calibrated <- tensors[startsWith(names(tensors), "calibration/")]
  names(calibrated) <- sub("^calibration/", "", names(calibrated))
  structure(
    list(
      model = structure$model, families = structure$families, labels = lapply(structure$labels, unlist),
      symmetry = structure$symmetry, prior = prior, contribution = contribution,
      natural = Map(`+`, prior, contribution), ids = unlist(about$ids), fingerprint = about$fingerprint,
      calibration = calibrated, uncertainty = about$calibration, note = about$note
    ),
    class = "decbayes"
  )
}

# A prior repeats its numbers: one row or one column may stand for all.
spread <- function(part, shape) {
  part <- if (is.matrix(part)) part else matrix(part, 1)
  part[rep_len(seq_len(nrow(part)), shape[1]), rep_len(seq_len(ncol(part)), shape[2]), drop = FALSE]
}

# Sparse contributions are compressed rows: where each row begins, its columns, its values.
contribution_of <- function(tensors, name, shape, sparse) {
  part <- function(kind) tensors[[paste("contribution", name, kind, sep = "/")]]
  if (!sparse) return(part("data"))
  dense <- matrix(0, shape[1], shape[2])
  rows <- rep(seq_len(shape[1]), diff(part("indptr")))
  dense[cbind(rows, part("indices") + 1L)] <- part("data")
  dense
}
