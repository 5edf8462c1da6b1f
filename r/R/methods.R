# What people ask of a posterior.

#' Mean, standard deviation and interval of every parameter, one row each.
#'
#' @param level The probability that an interval holds: 0.9 by default.
#' @param top Of components with more columns than this (topics) only the largest entries are listed.
summary.decbayes <- function(object, level = 0.9, top = 20, ...) {
  if (!is.numeric(level) || level <= 0 || level >= 1) stop("level lies between 0 and 1.", call. = FALSE)
  rows <- lapply(names(object$families), function(factor) factor_rows(object, factor, level, top))
  do.call(rbind, unlist(rows, recursive = FALSE))
}

factor_rows <- function(object, factor, level, top) {
  parts <- marginals(object$families[[factor]], object$natural[[factor]])
  lapply(names(parts), function(quantity) {
    quantity_rows(object, factor, quantity, parts[[quantity]], level, top)
  })
}

quantity_rows <- function(object, factor, quantity, part, level, top) {
  found <- object$calibration[[paste(factor, quantity, sep = "/")]]
  stretch <- stretched(found, part$deviation)
  deviation <- if (is.null(found)) part$deviation else array(found, dim(part$mean))
  lower <- part$quantile((1 - level) / 2, stretch)
  upper <- part$quantile((1 + level) / 2, stretch)
  ranked_by <- if (factor == "topics") relevance(part$mean, rowSums(object$contribution$topics)) else part$mean
  chosen <- if (ncol(part$mean) > top) largest(ranked_by, top) else all_of(part$mean)
  labels <- object$labels[[factor]]
  labelled <- length(labels) == ncol(part$mean) && is.null(part$unlabelled)
  entries <- if (labelled) labels[chosen[, 2]] else entry_numbers(part$mean, chosen)
  data.frame(
    factor = factor, component = chosen[, 1] - 1L, quantity = quantity, entry = entries,
    mean = part$mean[chosen], deviation = deviation[chosen], lower = lower[chosen], upper = upper[chosen]
  )
}

# How many times wider a calibration has found each entry; 1 where there is nothing to compare.
stretched <- function(found, plain) {
  if (is.null(found)) return(1 + 0 * ifelse(is.finite(plain), plain, 0))
  found <- array(found, dim(plain))
  usable <- is.finite(plain) & plain > 0 & is.finite(found) & found > 0
  ifelse(usable, found / ifelse(usable, plain, 1), 1)
}

all_of <- function(matrix) cbind(rep(seq_len(nrow(matrix)), each = ncol(matrix)), rep(seq_len(ncol(matrix)), nrow(matrix)))

largest <- function(matrix, top) {
  ranked <- lapply(seq_len(nrow(matrix)), function(k) cbind(k, order(-matrix[k, ])[seq_len(top)]))
  do.call(rbind, ranked)
}

# log p(w | k) - 0.2 log p(w): words that are frequent in a topic, less so those that are frequent in all.
relevance <- function(shares, evidence, common = 0.2) {
  weights <- if (sum(evidence) > 0) evidence / sum(evidence) else rep(1 / nrow(shares), nrow(shares))
  sweep(log(shares), 2, common * log(as.vector(weights %*% shares)))
}

entry_numbers <- function(matrix, chosen) if (ncol(matrix) == 1) rep("", nrow(chosen)) else as.character(chosen[, 2] - 1L)

#' The model, who has released it, where intervals come from, remarks, and coefficients or topics.
print.decbayes <- function(x, ...) {
  count <- max(vapply(x$natural, nrow, 0L))
  cat(x$model$name, if (count > 1) paste0(": ", count, " components"), "\n", sep = "")
  for (said in c("site", "date", "approver")) {
    value <- x$note$manifest[[said]]
    if (length(value) && nzchar(value)) cat(said, ": ", value, "\n", sep = "")
  }
  cat("intervals: ", uncertainty(x), "\n", sep = "")
  for (remark in x$note$remarks) cat("remark: ", remark$what, "\n", sep = "")
  if (is_regression(x)) print_coefficients(x) else if ("topics" %in% names(x$natural)) print_topics(x)
  invisible(x)
}

uncertainty <- function(x) {
  exact <- identical(x$model$name, "LinearRegression") && x$families$coefficients == "GaussianGamma"
  if (!is.null(x$uncertainty)) x$uncertainty else if (exact) "exact" else "mean-field, not calibrated"
}

print_coefficients <- function(x) {
  real <- Filter(function(column) identical(column[[2]], "real"), x$model$columns)
  units <- vapply(real, function(column) paste(column[[1]], format(column[[4]])), "")
  if (length(units)) cat("per agreed unit: ", paste(units, collapse = ", "), "\n", sep = "")
  print(coef(x), digits = 3)
}

print_topics <- function(x) {
  words <- top_words(x, 8)
  for (topic in seq_along(words)) cat(topic - 1, ": ", paste(words[[topic]], collapse = ", "), "\n", sep = "")
}

is_regression <- function(object) "coefficients" %in% names(object$natural) && nrow(object$natural$coefficients) == 1

#' The coefficients of a regression with intervals, in the units that the sites have agreed on.
coef.decbayes <- function(object, level = 0.9, ...) {
  if (!is_regression(object)) stop("Only regressions have coefficients; summary() has all parameters.", call. = FALSE)
  rows <- summary(object, level = level, top = Inf)
  rows <- rows[rows$factor == "coefficients" & rows$quantity != "precision", ]
  data.frame(rows[c("mean", "deviation", "lower", "upper")], row.names = rows$entry)
}

#' The covariance of a regression's coefficients.
vcov.decbayes <- function(object, ...) {
  if (!is_regression(object)) stop("Only regressions have coefficients.", call. = FALSE)
  natural <- object$natural$coefficients
  if (object$families$coefficients == "GaussianGamma") {
    parts <- gaussian_gamma(natural)
    covariance <- parts$inverse[[1]] * parts$rate / (parts$shape - 1)
  } else {
    d <- dimension_of(ncol(natural), 0)
    covariance <- solve(-2 * symmetric(natural[1, -seq_len(d)], d))
  }
  dimnames(covariance) <- rep(list(object$labels$coefficients), 2)
  covariance
}

#' Odds, rate or hazard ratios: exp() of the coefficients and of their intervals.
ratios <- function(object, level = 0.9) {
  if (identical(object$model$name, "LinearRegression")) stop("A linear regression has no ratios; see coef().", call. = FALSE)
  exp(coef(object, level = level)[c("mean", "lower", "upper")])
}

#' The most telling words of each topic: ranked by log p(w | topic) - 0.2 log p(w).
top_words <- function(object, count = 10) {
  if (!"topics" %in% names(object$natural)) stop("Only topic models have words.", call. = FALSE)
  counts <- object$natural$topics + 1
  scores <- relevance(counts / rowSums(counts), rowSums(object$contribution$topics))
  lapply(seq_len(nrow(scores)), function(k) {
    object$labels$topics[order(-scores[k, ])[seq_len(min(count, ncol(scores)))]]
  })
}

#' Coefficients with intervals; otherwise the shares of the components.
plot.decbayes <- function(x, level = 0.9, ...) {
  if (!is_regression(x)) return(invisible(plot_shares(x, level, ...)))
  rows <- coef(x, level = level)
  rows <- rows[rownames(rows) != "intercept", ]
  heights <- rev(seq_len(nrow(rows)))
  before <- par(mar = c(4, 9, 1, 1))
  on.exit(par(before))
  plot(rows$mean, heights, xlim = range(0, rows$lower, rows$upper), ylim = c(0.5, nrow(rows) + 0.5), yaxt = "n",
       ylab = "", xlab = sprintf("coefficient, %g %% interval", 100 * level), pch = 19, ...)
  abline(v = 0, lty = 3)
  segments(rows$lower, heights, rows$upper, heights)
  axis(2, at = heights, labels = rownames(rows), las = 1)
  invisible(rows)
}

plot_shares <- function(x, level, ...) {
  name <- names(x$families)[vapply(x$families, function(family) family %in% c("Weights", "Shares"), NA)][1]
  if (is.na(name)) stop("There is nothing to plot but summary().", call. = FALSE)
  rows <- summary(x, level = level)
  rows <- rows[rows$factor == name, ]
  middle <- barplot(rows$mean, names.arg = rows$component, ylim = c(0, max(rows$upper)), xlab = "component",
                    ylab = sprintf("share, %g %% interval", 100 * level), ...)
  segments(middle, rows$lower, middle, rows$upper)
  rows
}
