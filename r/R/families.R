# Marginals of each family, from its natural parameters. A marginal is a list: mean, deviation and quantile(p, stretch),
# each a matrix with one row per component; `stretch` is how many times wider a calibration has found it to be.

marginals <- function(family, natural) {
  name <- sub("\\(.*$", "", family)
  reader <- FAMILIES[[name]]
  if (is.null(reader)) stop("The family '", family, "' is not known to this reader.", call. = FALSE)
  reader(natural, family)
}

columns <- function(natural, from, count) natural[, from - 1 + seq_len(count), drop = FALSE]

normal <- function(mean, variance) {
  deviation <- sqrt(variance)
  list(mean = mean, deviation = deviation, quantile = function(p, stretch) mean + deviation * stretch * qnorm(p))
}

# Student's t with `freedom` degrees of freedom.
student <- function(mean, scale, freedom) {
  freedom <- freedom + 0 * mean
  deviation <- ifelse(freedom > 2, scale * sqrt(freedom / pmax(freedom - 2, 1e-300)), Inf)
  list(mean = mean, deviation = deviation, quantile = function(p, stretch) mean + scale * stretch * qt(p, freedom))
}

gamma_of <- function(shape, rate) {
  list(
    mean = shape / rate, deviation = sqrt(shape) / rate,
    quantile = function(p, stretch) array(qgamma(p, shape / stretch^2, rate / stretch^2), dim(shape))
  )
}

# One precision for all dimensions of a component: no column's label is its name.
one_per_component <- function(shape, rate) c(gamma_of(matrix(shape), matrix(rate)), list(unlabelled = TRUE))

# One coordinate of a Dirichlet whose parameters add up to `total`.
share_of <- function(alpha, total) {
  share <- alpha / total
  list(
    mean = share, deviation = sqrt(share * (1 - share) / (total + 1)),
    quantile = function(p, stretch) {
      evidence <- pmax((total + 1) / stretch^2 - 1, 1e-3)
      array(ifelse(share >= 1, 1, qbeta(p, share * evidence, (1 - share) * evidence)), dim(share))
    }
  )
}

# Only the mean is known to be meant: T(z) of a point estimate.
certain <- function(mean) list(mean = mean, deviation = 0 * mean, quantile = function(p, stretch) mean)

square <- function(row, dimension) matrix(row, dimension, dimension, byrow = TRUE)

# Rows that hold a vector and a symmetric matrix: the dimension from the number of columns.
dimension_of <- function(columns, others) as.integer(round((sqrt(1 + 4 * (columns - others)) - 1) / 2))

FAMILIES <- list(
  IsotropicGaussian = function(natural, family) {
    d <- ncol(natural) - 1
    variance <- -0.5 / natural[, d + 1]
    list(value = normal(columns(natural, 1, d) * variance, matrix(variance, nrow(natural), d)))
  },
  DiagonalGaussian = function(natural, family) {
    d <- ncol(natural) / 2
    variance <- -0.5 / columns(natural, d + 1, d)
    list(value = normal(columns(natural, 1, d) * variance, variance))
  },
  FullGaussian = function(natural, family) {
    d <- dimension_of(ncol(natural), 0)
    covariances <- lapply(seq_len(nrow(natural)), function(k) solve(-2 * symmetric(natural[k, -seq_len(d)], d)))
    means <- by_row(seq_along(covariances), function(k) covariances[[k]] %*% natural[k, seq_len(d)])
    list(value = normal(means, by_row(covariances, diag)))
  },
  GaussianGamma = function(natural, family) {
    parts <- gaussian_gamma(natural)
    scale <- by_row(seq_along(parts$inverse), function(k) sqrt(parts$rate[k] / parts$shape[k] * diag(parts$inverse[[k]])))
    list(mean = student(parts$mean, scale, 2 * parts$shape),
         precision = one_per_component(parts$shape, parts$rate))
  },
  IsotropicNormalGamma = function(natural, family) {
    d <- ncol(natural) - 3
    strength <- -2 * natural[, d + 3]
    mean <- columns(natural, 3, d) / strength
    shape <- natural[, 1] + 1 - d / 2
    rate <- -natural[, 2] - 0.5 * strength * rowSums(mean^2)
    list(mean = student(mean, matrix(sqrt(rate / (shape * strength)), nrow(natural), d), 2 * shape),
         precision = one_per_component(shape, rate))
  },
  NormalGamma = function(natural, family) {
    d <- ncol(natural) / 4
    strength <- -2 * columns(natural, 3 * d + 1, d)
    mean <- columns(natural, 2 * d + 1, d) / strength
    shape <- columns(natural, 1, d) + 0.5
    rate <- -columns(natural, d + 1, d) - 0.5 * strength * mean^2
    list(mean = student(mean, sqrt(rate / (shape * strength)), 2 * shape), precision = gamma_of(shape, rate))
  },
  NormalWishart = function(natural, family) {
    d <- dimension_of(ncol(natural), 2)
    strength <- -2 * natural[, ncol(natural)]
    mean <- columns(natural, d * d + 2, d) / strength
    freedom <- natural[, 1] + 1
    scale <- by_row(seq_len(nrow(natural)), function(k) {
      inverse <- -2 * symmetric(natural[k, 1 + seq_len(d * d)], d) - strength[k] * outer(mean[k, ], mean[k, ])
      sqrt(diag(inverse) / (strength[k] * freedom[k]))
    })
    list(mean = student(mean, scale, freedom))
  },
  # Precision matrices, of parts that correlate from site to site, are not listed.
  Wishart = function(natural, family) list(),
  Gamma = function(natural, family) {
    d <- ncol(natural) / 2
    list(value = gamma_of(columns(natural, 1, d) + 1, -columns(natural, d + 1, d)))
  },
  Beta = function(natural, family) {
    d <- ncol(natural) / 2
    alpha <- columns(natural, 1, d) + 1
    list(value = share_of(alpha, alpha + columns(natural, d + 1, d) + 1))
  },
  Dirichlet = function(natural, family) list(value = share_of(natural + 1, rowSums(natural + 1) + 0 * natural)),
  Dirichlets = function(natural, family) {
    group <- rep(seq_along(sizes_of(family)), sizes_of(family))
    totals <- t(rowsum(t(natural + 1), group, reorder = FALSE))
    list(value = share_of(natural + 1, totals[, group, drop = FALSE]))
  },
  Weights = function(natural, family) list(value = share_of(natural + 1, sum(natural + 1) + 0 * natural)),
  Bernoulli = function(natural, family) list(value = certain(1 / (1 + exp(-natural)))),
  Categorical = function(natural, family) {
    odds <- exp(natural - apply(natural, 1, max))
    list(value = certain(odds / rowSums(odds)))
  }
)
FAMILIES$Shares <- FAMILIES$Weights
FAMILIES$Transitions <- FAMILIES$Dirichlet

symmetric <- function(row, d) (square(row, d) + t(square(row, d))) / 2

by_row <- function(items, value) {
  rows <- lapply(items, function(item) as.vector(value(item)))
  do.call(rbind, rows)
}

gaussian_gamma <- function(natural) {
  d <- dimension_of(ncol(natural), 2)
  precision <- lapply(seq_len(nrow(natural)), function(k) -2 * symmetric(natural[k, -seq_len(d + 2)], d))
  inverse <- lapply(precision, solve)
  mean <- by_row(seq_along(inverse), function(k) inverse[[k]] %*% natural[k, 2 + seq_len(d)])
  quadratic <- vapply(seq_along(inverse), function(k) sum(mean[k, ] * (precision[[k]] %*% mean[k, ])), 0)
  list(mean = mean, inverse = inverse, shape = natural[, 1] + 1 - d / 2, rate = -natural[, 2] - 0.5 * quadratic)
}

# "Dirichlets(2,3*4)": one group of two columns, four groups of three.
sizes_of <- function(family) {
  parts <- strsplit(gsub("^.*\\(|\\).*$", "", family), ",")[[1]]
  unlist(lapply(strsplit(parts, "\\*"), function(part) {
    numbers <- as.integer(part)
    rep(numbers[1], if (length(numbers) > 1) numbers[2] else 1L)
  }))
}
