"""The figures of Campbell & How (UAI 2014), made by decbayes: `python -m paper NAME`, or `make figures`."""
